//! Names of images: what was accepted is spelled out, and that means the same again.

use loggia_function::Image;
use loggia_function::image::check_prefix;

pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (prefix, name) = text.split_once('\n').unwrap_or(("", text));
    let image = Image::with_prefix(name, (!prefix.is_empty()).then_some(prefix));
    let _ = check_prefix(prefix);
    let _ = loggia_functions::find(name);
    let Ok(reference) = image.reference() else { return };
    let parts = || reference.repository().split('/').chain(reference.tag());
    assert!(
        parts().all(|part| !part.is_empty() && part != "." && part != ".."),
        "a path in {name:?}: {reference:?}"
    );
    assert!(
        !image.full_name().contains(|letter: char| letter.is_control()),
        "a control character in {name:?}"
    );
    let again = Image::new(image.full_name());
    let same = again.reference().expect("a full name is a name");
    assert_eq!(same.to_string(), reference.to_string(), "{name:?} is spelled out as something else");
}
