//! Errors of the operating system in Go's words.

use std::io;

/// The text of an error as Go's `syscall.Errno` has it: lower case, without the number.
pub fn errno_text(error: &io::Error) -> String {
    let text = match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory",
        io::ErrorKind::PermissionDenied => "permission denied",
        _ => {
            let text = error.to_string();
            let end = text.find(" (os error").unwrap_or(text.len());
            return text[..end].to_lowercase();
        }
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_system_is_lower_case_and_without_its_number() {
        let text = |number| errno_text(&io::Error::from_raw_os_error(number));
        assert_eq!(text(2), "no such file or directory");
        assert_eq!(text(13), "permission denied");
        assert_eq!(text(8), "exec format error");
        assert_eq!(errno_text(&io::Error::other("Broken")), "broken");
    }
}
