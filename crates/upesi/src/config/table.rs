//! Declares settings, each once: section, name, type, default, bounds, meaning, and when a new
//! value takes effect. The file's structure, the checks of bounds, `check-config` and the table of
//! `docs/configuration.md` follow from the declaration.

use std::num::NonZeroU32;
use std::ops::{Bound, RangeBounds};

use serde::Serialize;

use crate::cli::units::Count;

/// When a new value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TakesEffect {
    /// At the next start.
    Start,
    /// At the next start, which records it in the log.
    Log,
    /// While the switch runs: the content of the file or directory is read again.
    Reload,
    /// In a new log only.
    Never,
}

impl TakesEffect {
    /// Its name, as the manual and `check-config` show it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Log => "log",
            Self::Reload => "reload",
            Self::Never => "never",
        }
    }
}

/// The declaration of a setting.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// Section and key.
    pub(crate) name: &'static str,
    /// Its default as written in the file; `none` without one.
    pub(crate) default: String,
    /// Its bounds with their unit.
    pub(crate) bounds: Option<String>,
    pub(crate) change: TakesEffect,
    pub(crate) meaning: &'static str,
}

/// The smallest and the largest value of a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    least: Option<u64>,
    most: Option<u64>,
}

impl Bounds {
    pub(super) fn of(range: &impl RangeBounds<u64>) -> Self {
        let (Bound::Included(end) | Bound::Excluded(end)) = range.end_bound() else {
            return Self { least: start_of(range), most: None };
        };
        Self { least: start_of(range), most: Some(*end) }
    }

    /// The error about a value outside the bounds.
    pub(super) fn fault(self, name: &str, value: u64) -> Option<String> {
        let is_within = self.least.is_none_or(|least| least <= value)
            && self.most.is_none_or(|most| value <= most);
        let wanted = match (self.least, self.most) {
            (Some(least), Some(most)) => format!("between {least} and {most}"),
            (Some(least), None) => format!("at least {least}"),
            (None, most) => format!("at most {}", most.unwrap_or(u64::MAX)),
        };
        (!is_within).then(|| format!("{name} must be {wanted}"))
    }

    /// The bounds as text for the manual, with the unit from the end of the setting's name.
    pub(super) fn describe(self, name: &str) -> String {
        let units = [("_ms", " ms"), ("_seconds", " s"), ("_hours", " h"), ("_mib", " MiB")];
        let unit = units.into_iter().find(|(end, _)| name.ends_with(end));
        let unit = unit.map_or("", |(_, unit)| unit);
        match (self.least.map(Count), self.most.map(Count)) {
            (Some(least), Some(most)) => format!("{least} to {most}{unit}"),
            (Some(least), None) => format!("at least {least}{unit}"),
            (None, most) => format!("at most {}{unit}", most.unwrap_or(Count(u64::MAX))),
        }
    }
}

fn start_of(range: &impl RangeBounds<u64>) -> Option<u64> {
    match range.start_bound() {
        Bound::Included(start) | Bound::Excluded(start) => Some(*start),
        Bound::Unbounded => None,
    }
}

/// A number with bounds.
pub(super) trait Number {
    fn number(&self) -> u64;
}

macro_rules! numbers {
    ($($type:ty),*) => {
        $(impl Number for $type {
            fn number(&self) -> u64 {
                *self as u64
            }
        })*
    };
}

numbers!(u8, u32, u64, usize);

/// Without a value it is 0, which a bound from above accepts.
impl Number for Option<usize> {
    fn number(&self) -> u64 {
        self.unwrap_or_default() as u64
    }
}

impl Number for NonZeroU32 {
    fn number(&self) -> u64 {
        self.get().into()
    }
}

/// Declares all settings by section: `key: type = default, bounds => change;` after its meaning.
/// Without `change`, a new value takes effect at the next start.
macro_rules! settings {
    ($(
        $(#[doc = $about:literal])+
        $section:ident: $name:ident {$(
            $(#[doc = $meaning:literal])+
            $key:ident: $type:ty = $default:expr $(, $bounds:expr)? $(=> $change:ident)?;
        )*}
    )*) => {
        /// All settings, by section of the TOML file.
        #[derive(Clone, Debug, Default, Deserialize, Serialize)]
        #[serde(deny_unknown_fields, default)]
        pub(crate) struct Config {
            $($(#[doc = $about])+ pub(crate) $section: $name,)*
        }

        $(
            $(#[doc = $about])+
            #[derive(Clone, Debug, Deserialize, Serialize)]
            #[serde(deny_unknown_fields, default)]
            pub(crate) struct $name {
                $($(#[doc = $meaning])+ pub(crate) $key: $type,)*
            }

            impl Default for $name {
                fn default() -> Self {
                    Self { $($key: $default,)* }
                }
            }
        )*

        impl Config {
            /// The error about the first setting out of its bounds.
            pub(super) fn out_of_bounds(&self) -> Option<String> {
                let faults = [$($($(Bounds::of(&($bounds)).fault(
                    concat!(stringify!($section), ".", stringify!($key)),
                    self.$section.$key.number(),
                ),)?)*)*];
                faults.into_iter().flatten().next()
            }
        }

        /// All settings, in the order of their declaration.
        pub(crate) fn settings() -> Vec<Setting> {
            let defaults = toml::Table::try_from(Config::default());
            let defaults = defaults.expect("defaults are TOML values");
            let default = |section: &str, key: &str| {
                let value = defaults[section].get(key);
                value.map_or_else(|| "none".to_owned(), ToString::to_string)
            };
            vec![$($(Setting {
                name: concat!(stringify!($section), ".", stringify!($key)),
                default: default(stringify!($section), stringify!($key)),
                bounds: [$(Bounds::of(&($bounds)).describe(stringify!($key)))?].into_iter().next(),
                change: [$(TakesEffect::$change,)? TakesEffect::Start][0],
                meaning: concat!($($meaning),+).trim_ascii(),
            },)*)*]
        }
    };
}

pub(super) use settings;
