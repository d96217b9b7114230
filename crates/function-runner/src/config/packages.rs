//! What the package service takes, from its flags.

use loggia_render::Paths;

use super::UsageError;
use crate::flags::PackageFlags;

/// What packages may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackageConfig {
    /// How deep packages nest.
    pub(crate) nesting: usize,
    /// How many functions a pipeline has.
    pub(crate) steps: usize,
    /// Which files functions may make.
    pub(crate) paths: Paths,
}

impl PackageConfig {
    pub(crate) fn resolve(flags: &PackageFlags) -> Result<Self, UsageError> {
        let PackageFlags { max_package_depth, max_pipeline_steps, allow_any_path } = flags;
        let number = |flag, value: i64, most: i64| {
            let range = 1..=most;
            let inside = usize::try_from(value).ok().filter(|_| range.contains(&value));
            inside.ok_or(UsageError::OutOfRange { flag, value, range })
        };
        Ok(Self {
            nesting: number("max-package-depth", *max_package_depth, 256)?,
            steps: number("max-pipeline-steps", *max_pipeline_steps, 1_000_000)?,
            paths: if *allow_any_path { Paths::Any } else { Paths::Package },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_positive_and_have_an_end() {
        let flags = PackageFlags::default();
        let config = PackageConfig::resolve(&flags).unwrap();
        assert_eq!(config, PackageConfig { nesting: 64, steps: 1000, paths: Paths::Package });
        for depth in [0, -1, 257] {
            let flags = PackageFlags { max_package_depth: depth, ..PackageFlags::default() };
            let error = PackageConfig::resolve(&flags).unwrap_err().to_string();
            assert_eq!(error, format!("--max-package-depth: {depth} is not a number from 1 to 256"));
        }
        let flags = PackageFlags { allow_any_path: true, ..PackageFlags::default() };
        assert_eq!(PackageConfig::resolve(&flags).unwrap().paths, Paths::Any);
    }
}
