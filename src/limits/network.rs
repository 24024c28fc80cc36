//! [`Network`]: the network that a request comes from.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU64;

use ipnet::IpNet;
use serde::Deserialize;
use serde_with::SerializeDisplay;

/// The prefix length that an IPv6 site is given, with all addresses in it.
const SITE_BITS: u32 = 64;
/// The prefix length of the largest IPv6 network that a provider gives a customer.
const CUSTOMER_BITS: u32 = 48;

/// A network whose clients share a rate limit: an IPv4 address, or the /64 of an IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network(IpAddr);

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        Self::of(address.to_canonical(), SITE_BITS)
    }
}

impl Network {
    /// An IPv4 address, or a prefix of an IPv6 address.
    fn of(address: IpAddr, prefix_bits: u32) -> Self {
        Self(match address {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - prefix_bits))).into()
            }
        })
    }

    /// The network without the part that could name a person.
    pub fn coarse(self) -> CoarseNetwork {
        self.0.into()
    }

    /// What one customer of a provider can have: an IPv4 address, or the /48 of an IPv6 address.
    pub fn customer(self) -> Self {
        Self::of(self.0, CUSTOMER_BITS)
    }
}

/// A network that is too large to be a person: the /24 of an IPv4 address, or the /48 of an IPv6 address.
///
/// It is packed into a number, so that it can be stored without a lock: the prefix, and above it whether it is of IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, SerializeDisplay, Deserialize)]
#[serde(try_from = "String")]
pub struct CoarseNetwork(NonZeroU64);

impl CoarseNetwork {
    const V4_BITS: u8 = 24;
    const V6_BITS: u8 = 48;
    const IS_V4: NonZeroU64 = NonZeroU64::new(1 << 62).expect("not zero");
    const IS_V6: NonZeroU64 = NonZeroU64::new(1 << 63).expect("not zero");

    /// The network as a number, which is not 0.
    pub fn to_bits(self) -> u64 {
        self.0.get()
    }

    /// The network of a number that [`to_bits`](Self::to_bits) returned; `None` for 0.
    pub fn from_bits(bits: u64) -> Option<Self> {
        NonZeroU64::new(bits).map(Self)
    }
}

impl From<IpAddr> for CoarseNetwork {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => {
                Self::IS_V4 | u64::from(address.to_bits() >> (32 - Self::V4_BITS))
            }
            IpAddr::V6(address) => {
                Self::IS_V6 | (address.to_bits() >> (128 - Self::V6_BITS)) as u64
            }
        })
    }
}

impl fmt::Display for CoarseNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0.get();
        if bits & Self::IS_V4.get() != 0 {
            let address = Ipv4Addr::from_bits((bits as u32) << (32 - Self::V4_BITS));
            return write!(f, "{address}/{}", Self::V4_BITS);
        }
        let prefix = u128::from(bits & !Self::IS_V6.get());
        let address = Ipv6Addr::from_bits(prefix << (128 - Self::V6_BITS));
        write!(f, "{address}/{}", Self::V6_BITS)
    }
}

impl TryFrom<String> for CoarseNetwork {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let network = text.parse::<IpNet>().ok();
        let found = network.map(|network| Self::from(network.addr()));
        let found = found.filter(|found| found.to_string() == text);
        found.ok_or("a coarse network is a /24 of IPv4 or a /48 of IPv6")
    }
}

/// The proxies whose `X-Forwarded-For` is trusted.
#[derive(Debug, Clone, Default)]
pub struct Proxies(Vec<IpNet>);

impl Proxies {
    /// The proxies in these networks.
    pub fn new(trusted: Vec<IpNet>) -> Self {
        Self(trusted)
    }

    /// Parses a network such as `10.0.0.0/8`, or an address.
    ///
    /// # Errors
    /// Returns the expected form if the text is neither.
    pub fn parse(text: &str) -> Result<IpNet, &'static str> {
        let address = || text.parse::<IpAddr>().map(IpNet::from);
        let network = text.parse().or_else(|_| address());
        network.map_err(|_| "expected an address or a network such as 10.0.0.0/8")
    }

    /// The address of the client. `forwarded` are the values of `X-Forwarded-For`, in order.
    ///
    /// Each proxy appends the address of its own client. So the list is read from its end while the proxies are
    /// trusted; the entries before that may be forged.
    pub fn client<'a>(
        &self,
        peer: IpAddr,
        forwarded: impl DoubleEndedIterator<Item = &'a str>,
    ) -> IpAddr {
        let mut client = peer.to_canonical();
        let mut hops = forwarded.rev().flat_map(|value| value.rsplit(','));
        while self.is_trusted(client) {
            match hops.next().and_then(address) {
                Some(before) => client = before,
                None => break,
            }
        }
        client
    }

    /// Whether an address is one of them.
    pub fn is_trusted(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

/// Parses an address with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let with_port = || text.parse().ok().map(|address: SocketAddr| address.ip());
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    Some(IpAddr::to_canonical(&bare.parse().ok().or_else(with_port)?))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::{CoarseNetwork, Network, Proxies};

    fn ip(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    fn client(trusted: &[&str], peer: &str, forwarded: &[&str]) -> String {
        let trusted = trusted
            .iter()
            .map(|text| Proxies::parse(text).expect("a network"));
        let proxies = Proxies::new(trusted.collect());
        proxies
            .client(ip(peer), forwarded.iter().copied())
            .to_string()
    }

    #[test]
    fn a_client_that_is_not_a_trusted_proxy_cannot_forge_its_address() {
        assert_eq!(client(&[], "192.0.2.1", &["203.0.113.9"]), "192.0.2.1");
        assert_eq!(
            client(&["10.0.0.0/8"], "192.0.2.1", &["203.0.113.9"]),
            "192.0.2.1"
        );
    }

    #[test]
    fn the_last_forwarded_address_that_is_not_a_proxy_is_the_client() {
        for (forwarded, expected) in [
            (vec!["203.0.113.9"], "203.0.113.9"),
            (vec!["198.51.100.7, 203.0.113.9"], "203.0.113.9"),
            (vec!["198.51.100.7", "203.0.113.9"], "203.0.113.9"),
            (vec!["203.0.113.9, 10.1.1.1, 10.2.2.2"], "203.0.113.9"),
            (vec!["203.0.113.9,", "10.2.2.2"], "10.2.2.2"),
            (vec!["203.0.113.9:4711"], "203.0.113.9"),
            (vec!["[2001:db8::9]:4711"], "2001:db8::9"),
            (vec!["[2001:db8::9]"], "2001:db8::9"),
            (vec!["::ffff:203.0.113.9"], "203.0.113.9"),
            (vec!["198.51.100.7, unknown"], "10.0.0.1"),
            (vec!["198.51.100.7, unknown, 10.2.2.2"], "10.2.2.2"),
            (vec!["10.3.3.3, 10.2.2.2"], "10.3.3.3"),
            (vec![""], "10.0.0.1"),
            (vec![], "10.0.0.1"),
        ] {
            let found = client(&["10.0.0.0/8"], "10.0.0.1", &forwarded);
            assert_eq!(found, expected, "{forwarded:?}");
        }
        let mapped = client(&["10.0.0.1"], "::ffff:10.0.0.1", &["203.0.113.9"]);
        assert_eq!(mapped, "203.0.113.9");
    }

    #[test]
    fn an_ipv6_site_is_one_network() {
        let of = |text| Network::from(ip(text));
        assert_eq!(
            of("2001:db8:1:2::1"),
            of("2001:db8:1:2:ffff:ffff:ffff:ffff")
        );
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }

    #[test]
    fn a_customer_has_a_48_of_ipv6() {
        let of = |text| Network::from(ip(text)).customer();
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:ffff::9"));
        assert_ne!(of("2001:db8:1::1"), of("2001:db8:2::1"));
        assert_ne!(of("203.0.113.77"), of("203.0.113.78"));
    }

    #[test]
    fn a_coarse_network_hides_the_address() {
        for (address, expected) in [
            ("203.0.113.77", "203.0.113.0/24"),
            ("::ffff:203.0.113.77", "203.0.113.0/24"),
            ("0.0.0.9", "0.0.0.0/24"),
            ("255.255.255.255", "255.255.255.0/24"),
            ("2001:db8:a:b:c:d:e:f", "2001:db8:a::/48"),
            ("ffff:ffff:ffff:ffff::", "ffff:ffff:ffff::/48"),
            ("::1", "::/48"),
        ] {
            let network = CoarseNetwork::from(ip(address));
            assert_eq!(network.to_string(), expected, "{address}");
            assert_eq!(CoarseNetwork::from_bits(network.to_bits()), Some(network));
            assert_eq!(CoarseNetwork::try_from(expected.to_owned()), Ok(network));
        }
        assert_eq!(CoarseNetwork::from_bits(0), None);
        for wrong in [
            "",
            "203.0.113.77",
            "203.0.113.77/24",
            "203.0.113.0/25",
            "2001:db8::1/48",
        ] {
            let parsed = CoarseNetwork::try_from(wrong.to_owned());
            assert!(parsed.is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_invalid_network_is_rejected() {
        for wrong in ["", "10.0.0.0/33", "proxy.example", "10.0.0/8"] {
            assert!(Proxies::parse(wrong).is_err(), "{wrong}");
        }
    }
}
