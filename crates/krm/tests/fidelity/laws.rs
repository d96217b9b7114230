//! What holds for any package, with no original to compare with.

use loggia_krm::package::{ReadOptions, WriteOptions};
use loggia_krm::{Files, Kptfile, Package, ResourceList, StreamOptions};

use crate::packages;
use crate::question::Question;
use crate::random::Random;

/// Reads and writes back once, with every default.
fn once(mut files: Files) -> Option<(Files, usize)> {
    let options = ReadOptions { subpackages: true, ..ReadOptions::default() };
    let package = Package::from_files(&files, &options).ok()?;
    let changes = package.changes(&WriteOptions::default()).ok()?;
    changes.apply_to_files(&mut files).ok()?;
    Some((files, changes.writes.len() + changes.removals.len()))
}

#[test]
fn what_was_written_once_stays_as_it_is() {
    let mut questions = packages::generated(400);
    questions.extend(packages::conformance().unwrap_or_default());
    let mut settled = 0;
    for question in questions {
        let Question::Package(files) = question else { continue };
        if let Some((files, _)) = once(files) {
            let (_, changes) = once(files.clone()).expect("what we wrote can be read");
            assert_eq!(changes, 0, "{:?}", Question::Package(files));
            settled += 1;
        }
    }
    assert!(settled > 200, "only {settled} packages could be read");
}

#[test]
fn no_bytes_make_us_panic() {
    for question in packages::generated(150) {
        let Question::Package(files) = question else { continue };
        for seed in 0..8 {
            let random = &mut Random::new(seed + 11);
            let mutated: Files =
                files.iter().map(|(path, text)| (path.clone(), mutate(text, random))).collect();
            for text in mutated.values() {
                let _ =
                    ResourceList::parse(text, StreamOptions { sequence_style: true }).map(|list| list.emit());
                let _ = Kptfile::parse(&String::from_utf8_lossy(text), "");
            }
            let _ = once(mutated);
        }
    }
}

/// A few bytes changed, dropped or doubled.
fn mutate(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut text = text.to_vec();
    for _ in 0..=random.below(4) {
        if text.is_empty() {
            break;
        }
        let at = random.below(text.len());
        match random.below(4) {
            0 => {
                let odd = [b':', b'\n', b'-', b'[', b'{', b'*', b'&', b'#', 0xff, b' '];
                text[at] = odd[random.below(odd.len())];
            }
            1 => drop(text.remove(at)),
            2 => text.insert(at, text[at]),
            _ => {
                let half = text[at..].to_vec();
                text.extend(half);
            }
        }
    }
    text
}
