//! [`Balancer`]: HAProxy in front of three replicas, with ops/haproxy.cfg.

use std::net::SocketAddr;
use std::process::Command;

use tempfile::TempDir;

use crate::ops::shipped;
use crate::support::*;

pub(super) struct Balancer {
    _process: Process,
    pub(super) address: SocketAddr,
    _folder: TempDir,
}

impl Balancer {
    /// Starts it, and waits until it answers. `None` if there is no HAProxy.
    pub(super) async fn start(replicas: [SocketAddr; 3]) -> Option<Self> {
        let haproxy = program("haproxy")?;
        let (folder, kept_ports) = (tempfile::tempdir().unwrap(), [kept_port(0), kept_port(0)]);
        let [address, plain] = kept_ports
            .each_ref()
            .map(|port| port.local_addr().unwrap().as_socket().unwrap());
        let servers = |names: [&str; 3], ending: &str| {
            let servers = names.iter().zip(replicas);
            let lines = servers.map(|(name, at)| format!("    server {name} {at} {ending}\n"));
            lines.collect::<String>()
        };
        let changes = [
            (
                "    user haproxy\n    group haproxy\n    chroot /var/lib/haproxy\n",
                String::new(),
            ),
            // The hard limit of open files may be lower here.
            ("maxconn 40000", "maxconn 4000".to_owned()),
            ("bind :80,:::80 v6only\n", format!("bind {plain}\n")),
            // Without TLS, which costs as much as all else here. The tests of ops/ have it.
            (
                "bind :443,:::443 v6only ssl crt /etc/haproxy/certs/racing.example.pem alpn http/1.1",
                format!("bind {address}"),
            ),
            (
                "    server a 127.0.0.1:8081 check\n    server b 127.0.0.1:8082 check\n",
                servers(["a", "b", "c"], "check"),
            ),
            (
                "    server a-unready 127.0.0.1:8081 backup\n    server b-unready 127.0.0.1:8082 backup",
                servers(["a-unready", "b-unready", "c-unready"], "backup"),
            ),
        ];
        let conf = folder.path().join("haproxy.cfg");
        std::fs::write(&conf, shipped("haproxy.cfg", &changes)).unwrap();
        let mut command = Command::new(haproxy);
        command.arg("-f").arg(&conf);
        let mut process = Process::start(command, folder.path().join("output.log"));
        let answers = || async {
            let answer = try_send(address, "GET", "/readyz", &[], String::new()).await;
            answer.is_ok_and(|reply| reply.status == 200)
        };
        process
            .until("HAProxy answers for a replica", answers)
            .await;
        drop(kept_ports);
        Some(Self {
            _process: process,
            address,
            _folder: folder,
        })
    }
}
