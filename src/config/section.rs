//! How a section of settings is declared: each setting once, with its default, its key and its environment variable.

/// One setting as it is listed for people and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its section in the file.
    pub section: &'static str,
    /// Its key in that section.
    pub key: &'static str,
    /// The environment variable that overrides the file.
    pub variable: &'static str,
}

/// What an environment variable holds that its setting can't take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadVariable {
    /// Which variable.
    pub variable: &'static str,
    /// What is wrong.
    pub detail: String,
}

/// Declares a section: the struct with its defaults, how it is read from a file (unknown keys are refused), and how
/// environment variables override it.
macro_rules! section {
    (
        $(#[$doc:meta])*
        $name:ident = $section:literal {
            $( $(#[$field_doc:meta])* $key:ident : $kind:ty = $default:expr, $variable:literal; )+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $( $(#[$field_doc])* pub $key: $kind, )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $key: $default, )+ }
            }
        }

        impl $name {
            /// Every setting of this section.
            pub const KNOWN: &'static [$crate::config::section::Known] = &[
                $( $crate::config::section::Known {
                    section: $section, key: stringify!($key), variable: $variable,
                }, )+
            ];

            /// Takes over what the environment says.
            pub fn overlay(
                &mut self,
                variable: &dyn Fn(&str) -> Option<String>,
            ) -> Result<(), $crate::config::section::BadVariable> {
                $( if let Some(text) = variable($variable) {
                    self.$key = text.trim().parse().map_err(|error| $crate::config::section::BadVariable {
                        variable: $variable,
                        detail: format!("{error}"),
                    })?;
                } )+
                Ok(())
            }
        }
    };
}
pub(crate) use section;

/// A value out of its bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfBounds {
    /// Which key.
    pub key: &'static str,
    /// What is wrong with it.
    pub detail: String,
}

/// Refuses a number outside `least..=most`.
pub(super) fn bounded(key: &'static str, value: i64, least: i64, most: i64) -> Result<(), OutOfBounds> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(OutOfBounds { key, detail: format!("{value} is not from {least} to {most}") })
    }
}
