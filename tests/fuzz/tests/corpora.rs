//! Every input of the corpora through its target, without libFuzzer.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use fuzz::{TARGETS, Target};

/// The inputs of a target, by name.
fn corpus(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target.name);
    let entries = fs::read_dir(&folder).expect("every target has a corpus");
    let paths = entries.map(|entry| entry.expect("an input").path());
    let mut inputs: Vec<_> = paths
        .map(|path| (path.clone(), fs::read(path).expect("an input")))
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "{} has an empty corpus", target.name);
    inputs
}

/// What CI reads at every run stays small.
const BYTES_MAX: usize = 500_000;

/// One test, because the targets count the bytes of the whole process.
#[test]
fn every_input_of_the_corpora_keeps_the_properties_of_its_target() {
    let keeps_them = |target: &Target, input: &[u8]| {
        catch_unwind(|| {
            target.run(input);
            with_a_long_word(input).for_each(|input| target.run(&input));
        })
        .is_ok()
    };
    let (mut failed, mut bytes) = (Vec::new(), 0);
    for target in TARGETS {
        let inputs = corpus(&target);
        bytes += inputs.iter().map(|(_, input)| input.len()).sum::<usize>();
        let inputs = inputs.into_iter();
        failed.extend(
            inputs
                .filter(|(_, input)| !keeps_them(&target, input))
                .map(|(path, _)| path),
        );
    }
    assert_eq!(failed, Vec::<PathBuf>::new(), "the reasons are above");
    assert!(bytes < BYTES_MAX, "the corpora have {bytes} bytes");
}

/// The input with one of its words made longer: one that a request may have, and one that only a file has.
fn with_a_long_word(input: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    const BYTES: [usize; 2] = [5_000, 100_000];
    /// Words of a large input that are tried.
    const WORDS_MAX: usize = 64;
    let is_text = std::str::from_utf8(input).is_ok();
    let is_word = |at: usize| input.get(at).is_some_and(u8::is_ascii_alphanumeric);
    let ends = (0..input.len()).filter(|at| is_word(*at) && !is_word(at + 1));
    // A packed file has no words.
    let ends: Vec<usize> = ends.filter(|_| is_text).collect();
    let step = ends.len().div_ceil(WORDS_MAX).max(1);
    let ends = ends.into_iter().step_by(step);
    ends.flat_map(move |end| {
        let longer = |bytes| [&input[..=end], &vec![input[end]; bytes], &input[end + 1..]].concat();
        BYTES.map(longer)
    })
}
