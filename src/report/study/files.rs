//! A study for other programs: JSON, and one table as CSV or Parquet.

use std::path::Path;

use ignn_format::Result;
use ignn_format::storage::ANY_FILE;
use serde_json::{Value, json};

use super::Study;
use crate::report::table::{Cell, ColumnKind, TableTarget, TableWriter};

/// The version of the format.
const FORMAT: &str = "ignn-study-1";

impl Study {
    /// The complete study.
    pub fn as_json(&self) -> Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        value["format"] = json!(FORMAT);
        value
    }

    /// The study that [`Study::as_json`] wrote.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        match value["format"].as_str() {
            Some(FORMAT) => serde_json::from_value(value),
            found => Err(serde::de::Error::custom(format!(
                "not the results of `ignn reproduce` (expected format \"{FORMAT}\", found {found:?})"
            ))),
        }
    }

    /// One row per figure: ours by both protocols, and the published ones. Unknown values are NaN.
    pub fn write_table(&self, path: &Path) -> Result<()> {
        let columns = [
            ("panel", ColumnKind::Text),
            ("point", ColumnKind::Text),
            ("x", ColumnKind::Float),
            ("method", ColumnKind::Text),
            ("score", ColumnKind::Text),
            ("protocol", ColumnKind::Text),
            ("source", ColumnKind::Text),
            ("mean", ColumnKind::Float),
            ("deviation", ColumnKind::Float),
            ("runs", ColumnKind::Integer),
        ];
        let mut writer = TableWriter::create(
            TableTarget::claim(path, Some(&ANY_FILE))?,
            &columns.map(|(name, kind)| (name.to_string(), kind)),
        )?;
        for panel in &self.panels {
            for row in &panel.rows {
                let protocols = [("validation", &row.validation), ("best test", &row.best_test)];
                let ours = protocols.into_iter().filter_map(|(protocol, figure)| {
                    let figure = figure.as_ref()?;
                    Some((protocol, "ours", figure.mean, figure.deviation, figure.count as u64))
                });
                let published = row.published.iter().map(|published| {
                    let deviation = published.deviation.unwrap_or(f64::NAN);
                    ("published", published.source.as_str(), published.value, deviation, 0)
                });
                for (protocol, source, mean, deviation, runs) in ours.chain(published) {
                    writer.row(&[
                        Cell::Text(&panel.id),
                        Cell::Text(&row.point),
                        Cell::Float(row.x as f32),
                        Cell::Text(&row.method),
                        Cell::Text(&row.score),
                        Cell::Text(protocol),
                        Cell::Text(source),
                        Cell::Float(mean as f32),
                        Cell::Float(deviation as f32),
                        Cell::Integer(runs),
                    ])?;
                }
            }
        }
        writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::study;
    use super::*;
    use std::fs;

    #[test]
    fn results_can_be_read_again() {
        let text = study().as_json().to_string();
        let again = Study::from_json(&text).unwrap();
        assert_eq!(
            (again.as_json(), again.as_markdown()),
            (study().as_json(), study().as_markdown())
        );
        let other = Study::from_json("{}").unwrap_err().to_string();
        assert!(other.contains("expected format \"ignn-study-1\""), "{other}");
    }

    #[test]
    fn one_row_per_figure() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.csv");
        study().write_table(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + 2 * 3 + 1, "{text}");
        assert_eq!(lines[0], "panel,point,x,method,score,protocol,source,mean,deviation,runs");
        assert!(
            lines[1].starts_with("length,10,10,IGNN,accuracy,validation,ours,0.95,0.0707"),
            "{text}"
        );
        assert_eq!(lines[5], "length,40,40,IGNN,accuracy,published,published code,0.645,NaN,0");
        study().write_table(&dir.path().join("results.parquet")).unwrap();
        assert_eq!(study().as_json()["panels"][0]["rows"][1]["failure"], "no such model");
    }
}
