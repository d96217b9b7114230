//! A Kptfile: read strictly, checked, changed and written; what was written is read again.

use loggia_krm::kptfile::KptfileDocument;

pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(mut document) = KptfileDocument::parse(text, "/package") else { return };
    let _ = document.kptfile().validate(&|_| Ok(bytes.to_vec()));
    let _ = document.kptfile().check_config_paths(&|_| false);
    let _ = (document.to_yaml(), document.to_ordered_yaml());
    document.edit(|kptfile| {
        kptfile.info = None;
    });
    let canonical = document.to_canonical_yaml();
    if let Err(error) = KptfileDocument::parse(&canonical, "/package") {
        panic!("what was written is not a Kptfile: {error}\n{canonical}");
    }
}
