//! One target with libFuzzer: `RAILBIRD_FUZZ_TARGET` names it.
#![no_main]

use std::sync::LazyLock;

use fuzz::Target;
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("RAILBIRD_FUZZ_TARGET").unwrap_or_default();
    Target::named(&name).expect("RAILBIRD_FUZZ_TARGET is the name of a target")
});

fuzz_target!(|input: &[u8]| TARGET.run(input));
