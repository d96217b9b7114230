//! Every target on its seeds and on what was once found: it returns.

use std::fs;
use std::path::Path;

use loggia_fuzz::TARGETS;

#[test]
fn every_target_returns_on_its_seeds() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for target in TARGETS {
        let folder =
            fs::read_dir(seeds.join(target.name)).unwrap_or_else(|error| panic!("{}: {error}", target.name));
        let mut count = 0;
        for seed in folder.flatten() {
            (target.run)(&fs::read(seed.path()).expect("a seed is a file"));
            count += 1;
        }
        assert!(count > 0, "{} has no seeds", target.name);
    }
}
