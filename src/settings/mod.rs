//! How a module declares its settings: the keys of a section or the words of a choice, each with
//! its text, default and range in one place.
//!
//! `settings!` declares a plain struct, one field per key. `words!` declares a plain enum, one
//! variant per word. Both read doc comments, and those are what users see: `ignn train --list`, the
//! JSON Schema and `docs/config.md` all print them. This module knows no section by name; `config`
//! puts the sections together and reads files.

mod field;
mod limits;

pub use field::{Field, Kind, SettingError, Word, literal, paragraphs, quoted};
pub use limits::{Bound, Limits, above, any, at_least};

use serde::Serialize;
use serde_json::Value;

/// The type of a setting.
pub trait Setting {
    /// What values it takes.
    const KIND: Kind;
}

/// A section of a configuration.
pub trait Section: Default + Serialize {
    /// What the section is about.
    const DOC: &'static str;
    /// Its keys, in the order in which they are written.
    const FIELDS: &'static [Field];

    /// Checks the values that a program has given.
    fn check(&self) -> Result<(), SettingError> {
        let values = self.values();
        Self::FIELDS.iter().try_for_each(|field| field.check(&values[field.key]))
    }

    /// The values by key.
    fn values(&self) -> Value {
        serde_json::to_value(self).expect("settings are plain data")
    }
}

impl Setting for bool {
    const KIND: Kind = Kind::Flag;
}

impl Setting for usize {
    const KIND: Kind = Kind::Integer;
}

impl Setting for u64 {
    const KIND: Kind = Kind::Integer;
}

impl Setting for f64 {
    const KIND: Kind = Kind::Number;
}

impl Setting for String {
    const KIND: Kind = Kind::Text;
}

impl<T: Setting> Setting for Vec<T> {
    const KIND: Kind = Kind::List(&T::KIND);
}

/// Declares a section: a struct whose fields are `key: type = default, limits;`.
///
/// Limits may be left out. The macro emits the struct with its doc comments, `Default`, serde's
/// traits and [`Section`].
macro_rules! settings {
    (
        $(#[doc = $doc:literal])+
        pub struct $name:ident {
            $($(#[doc = $text:literal])+ $key:ident: $type:ty = $default:expr $(, $limits:expr)?;)+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $(
                $(#[doc = $text])+
                #[doc = concat!("\n\nDefault: `", stringify!($default), "`.")]
                pub $key: $type,
            )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)+ }
            }
        }

        impl $crate::settings::Section for $name {
            const DOC: &'static str = concat!($($doc, "\n"),+);
            const FIELDS: &'static [$crate::settings::Field] = {
                #[allow(unused_imports)]
                use $crate::settings::{above, any, at_least};
                &[$($crate::settings::Field {
                    key: stringify!($key),
                    doc: concat!($($text, "\n"),+),
                    kind: <$type as $crate::settings::Setting>::KIND,
                    limits: [$($limits,)? any()][0],
                },)+]
            };
        }
    };
}
pub(crate) use settings;

/// Declares a choice: an enum whose variants are `Variant = "word"`. The first one is the default.
///
/// A variant may carry a number, `Variant(type = value)`, which its word does not tell: it reads as
/// `value`. The macro emits the enum with its doc comments, `Default`, `Display` (the word),
/// serde's traits and [`Setting`].
macro_rules! words {
    ($(
        $(#[doc = $doc:literal])+
        pub enum $name:ident {
            $(#[doc = $first_text:literal])+
            $first:ident = $first_word:literal,
            $(
                $(#[doc = $text:literal])+
                $variant:ident $(($type:ty = $value:expr))? = $word:literal,
            )+
        }
    )+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub enum $name {
            #[default]
            $(#[doc = $first_text])+
            $first,
            $($(#[doc = $text])+ $variant $(($type))?,)+
        }

        impl $name {
            /// Every choice, in the order of their words.
            pub const ALL: &'static [Self] = &[Self::$first, $(Self::$variant $(($value))?,)+];

            /// The word that a configuration has for it.
            pub fn word(self) -> &'static str {
                match self {
                    Self::$first => $first_word,
                    $(Self::$variant { .. } => $word,)+
                }
            }
        }

        impl $crate::settings::Setting for $name {
            const KIND: $crate::settings::Kind = $crate::settings::Kind::Choice(&[
                $crate::settings::Word {
                    word: $first_word,
                    doc: concat!($($first_text, "\n"),+),
                },
                $($crate::settings::Word { word: $word, doc: concat!($($text, "\n"),+) },)+
            ]);
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.word())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'de, str>>::deserialize(from)?;
                let found = Self::ALL.iter().find(|choice| choice.word() == word);
                let words = &[$first_word, $($word),+];
                found.copied().ok_or_else(|| serde::de::Error::unknown_variant(&word, words))
            }
        }
    )+};
}
pub(crate) use words;
