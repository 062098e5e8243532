//! Floats that JSON cannot hold. A float that is not finite is written as `null`; it reads back as
//! NaN, so that a record that was written with NaN compares the same field by field.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// A float, or NaN for `null`; for `#[serde(deserialize_with)]`.
pub fn or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// NaN, for fields that older files do not have.
pub fn nan() -> f64 {
    f64::NAN
}

/// Floats by name, with NaN for `null`.
pub fn map_or_nan<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, f64>, D::Error> {
    let values = BTreeMap::<String, Option<f64>>::deserialize(deserializer)?;
    Ok(values.into_iter().map(|(name, value)| (name, value.unwrap_or(f64::NAN))).collect())
}
