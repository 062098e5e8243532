//! `fold.json`: the record of a finished fold, which a resumed cross-validation takes over. It is
//! refused if it belongs to another cross-validation, was changed, or holds what no fold can have;
//! and if model or metrics of the fold are missing or not those that it was written after.

use std::path::Path;

use ignn_format::{FormatError, checksum, storage};
use serde::{Deserialize, Serialize};

use super::directory::METRICS;
use super::files;
use super::metrics_file::{Lines, Recorded};
use crate::predict::MODEL;
use crate::train::crossval::{FoldRecord, Point};

/// Name of the file.
pub(super) const FOLD: &str = "fold.json";

/// What to do with a record that is refused.
const AGAIN: &str = "remove the file, and --resume trains the fold again";

/// All of `fold.json` but its checksum.
#[derive(Serialize, Deserialize)]
struct FoldFile {
    /// [`BegunWith::id`](super::crossval_setup::BegunWith::id) of the cross-validation.
    setup: String,
    /// The other files of the fold.
    #[serde(flatten)]
    files: FoldFiles,
    #[serde(flatten)]
    record: FoldRecord,
}

/// Checksums of the other files of a fold; records of older versions have none.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct FoldFiles {
    /// That of all bytes of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// That of the records, without their times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metrics: Option<String>,
}

impl FoldFiles {
    /// The files in the directory of a fold.
    pub fn of(fold: &Path, metrics: Lines) -> Result<Self, FormatError> {
        let model = checksum::of_file(&fold.join(MODEL), 0)?.xxh3;
        Ok(Self { model: Some(model), metrics: Some(metrics.checksum()) })
    }

    /// Refuses other files than these.
    fn check(&self, fold: &Path) -> Result<(), FormatError> {
        type Read = fn(&Path) -> Result<String, FormatError>;
        let model: Read = |path| Ok(checksum::of_file(path, 0)?.xxh3);
        let metrics: Read = |path| match Recorded::read(path)? {
            // A finished fold has whole lines only.
            recorded if recorded.is_torn => {
                let what = format!("line {}", recorded.records.len() + 1);
                Err(FormatError::invalid(path, what, "no end of the line", "none or a whole line"))
            }
            recorded => Ok(recorded.lines.checksum()),
        };
        for (name, expected, read) in
            [(MODEL, &self.model, model), (METRICS, &self.metrics, metrics)]
        {
            let path = fold.join(name);
            let refused = |path: &Path, what: &str, found: String, expected: &str| {
                let expected = format!(
                    "{expected}: restore the file, or remove {FOLD} beside it, and --resume trains \
                     the fold again"
                );
                Err(FormatError::invalid(path, what, found, expected))
            };
            match (path.is_file(), expected) {
                (false, _) => {
                    return refused(
                        &path,
                        "checksum",
                        "none".into(),
                        "the file of a finished fold",
                    );
                }
                (true, None) => {}
                (true, Some(expected)) => match read(&path) {
                    Ok(found) if found == *expected => {}
                    Ok(found) => return refused(&path, "checksum", found, expected),
                    Err(FormatError::Invalid { path, what, found, expected }) => {
                        return refused(&path, &what, found, &expected);
                    }
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(())
    }
}

/// Writes the record of a fold whose other files are complete. With it, the fold is finished.
pub(super) fn write(
    path: &Path,
    setup: &str,
    files: FoldFiles,
    record: &FoldRecord,
) -> Result<(), FormatError> {
    let file = FoldFile { setup: setup.into(), files, record: record.clone() };
    storage::write_file(path, checksum::sealed(&file).as_bytes())
}

/// Reads the record of a fold of the cross-validation with this set-up.
pub(super) fn read(path: &Path, setup: &str, fold: usize) -> Result<FoldRecord, FormatError> {
    let text = files::read_whole(path)?;
    let invalid = |what: &str, found: String, expected: String| {
        FormatError::invalid(path, what, found, format!("{expected}: {AGAIN}"))
    };
    let FoldFile { setup: found, files, record } =
        serde_json::from_str(&text).map_err(|error| {
            invalid("content", error.to_string(), "what `ignn crossval` writes".into())
        })?;
    if found != setup {
        let expected = format!("{setup}, that of this cross-validation");
        return Err(invalid("set-up of the fold", found, expected));
    }
    match checksum::seal_of(text.as_bytes()) {
        Some([found, expected]) if found == expected => {}
        Some([found, expected]) => return Err(invalid("checksum", found, expected)),
        None => return Err(invalid("last field", "another".into(), "a checksum".into())),
    }
    if record.fold != fold {
        return Err(invalid("fold", record.fold.to_string(), fold.to_string()));
    }
    if let Some((what, found, expected)) = wrong_figure(&record) {
        return Err(invalid(what, found, expected.into()));
    }
    files.check(path.parent().unwrap_or(path))?;
    Ok(record)
}

/// Refuses a fold of other items: `expected` are their numbers for training, validation and test.
pub(super) fn check_items(
    path: &Path,
    record: &FoldRecord,
    expected: [usize; 3],
) -> Result<(), FormatError> {
    let words = |items: [usize; 3]| items.map(|count| count.to_string()).join("/");
    if record.items == expected {
        return Ok(());
    }
    let expected = format!("{}: {AGAIN}", words(expected));
    Err(FormatError::invalid(path, "graphs", words(record.items), expected))
}

/// A figure that training never gives: what it is, what was found, and what is expected.
fn wrong_figure(record: &FoldRecord) -> Option<(&'static str, String, &'static str)> {
    let points = || record.curve.iter().chain([&record.chosen]);
    let of_svm = record.svm.iter().flat_map(|svm| [svm.validation, svm.test]);
    let mut scores = points().flat_map(|point| [point.validation, point.test]).chain(of_svm);
    let (lowest, expected) = match record.errors.is_empty() {
        true => (0.0, "0 to 1"),
        false => (f64::MIN, "R2, 1 at most"),
    };
    if let Some(found) = scores.find(|score| !(lowest..=1.0).contains(score)) {
        return Some(("score", found.to_string(), expected));
    }
    let falls = |pair: &&[Point]| pair[0].epoch >= pair[1].epoch;
    if let Some(pair) = record.curve.windows(2).find(falls) {
        let found = format!("{} after {}", pair[1].epoch, pair[0].epoch);
        return Some(("epochs of the curve", found, "increasing ones"));
    }
    if !record.curve.contains(&record.chosen) {
        let found = format!("epoch {}", record.chosen.epoch);
        return Some(("chosen epoch", found, "a point of the curve"));
    }
    let of_svm = record.svm.iter().flat_map(|svm| [Some(svm.c), svm.gamma]).flatten();
    let errors = record.errors.values().copied();
    let mut amounts = record.sweeps.into_iter().chain([record.seconds]).chain(of_svm).chain(errors);
    // Below infinity, too.
    let found = amounts.find(|amount| !(0.0..f64::INFINITY).contains(amount))?;
    Some(("sweeps, seconds, errors, C or gamma", found.to_string(), "0 or more"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::*;
    use crate::run::MetricsWriter;
    use crate::train::svm_readout::SvmRecord;
    use crate::train::{Observer, testing};

    fn record() -> FoldRecord {
        let point = |epoch| Point { epoch, validation: 0.5, test: 0.25 };
        let svm = SvmRecord {
            c: 1.0,
            gamma: None,
            validation: 0.5,
            test: 0.75,
            vectors: 3,
            converged: true,
        };
        FoldRecord {
            fold: 2,
            items: [6, 2, 2],
            chosen: point(1),
            curve: vec![point(0), point(1)],
            errors: BTreeMap::new(),
            svm: Some(svm),
            sweeps: [0.1 + 0.2, 1.0],
            failures: 0,
            converged: true,
            seconds: 1e-7 / 3.0,
        }
    }

    #[test]
    fn a_record_reads_back_and_a_changed_one_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FOLD);
        let refused = |setup: &str, fold: usize| {
            let error = read(&path, setup, fold).unwrap_err().to_string();
            let (place, rest) = error.split_once(": ").unwrap();
            assert_eq!(place, path.display().to_string());
            rest.strip_suffix(&format!(": {AGAIN})")).unwrap().to_string()
        };
        let [model, metrics] = [MODEL, METRICS].map(|name| dir.path().join(name));
        fs::write(&model, "a model").unwrap();
        fs::write(&metrics, "").unwrap();
        let files = FoldFiles::of(dir.path(), Lines::default()).unwrap();
        let write = |record: &FoldRecord| write(&path, "12ab", files.clone(), record).unwrap();
        write(&record());
        assert_eq!(read(&path, "12ab", 2).unwrap(), record());
        assert_eq!(
            refused("34cd", 2),
            "set-up of the fold (found 12ab, expected 34cd, that of this cross-validation"
        );
        assert_eq!(refused("12ab", 1), "fold (found 2, expected 1");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("0.75", "0.85")).unwrap();
        assert!(refused("12ab", 2).starts_with("checksum (found "));
        fs::write(&path, "{}").unwrap();
        assert!(refused("12ab", 2).starts_with("content (found missing field `setup`"));
        // Forged, with the right checksum.
        let mut forged = record();
        let mut refused_forged = |change: fn(&mut FoldRecord)| {
            forged = record();
            change(&mut forged);
            write(&forged);
            refused("12ab", 2)
        };
        assert_eq!(
            refused_forged(|record| record.curve[0].test = 1.5),
            "score (found 1.5, expected 0 to 1"
        );
        assert_eq!(
            refused_forged(|record| record.svm.as_mut().unwrap().test = -0.5),
            "score (found -0.5, expected 0 to 1"
        );
        let error = refused_forged(|record| {
            // R2 has no lower end, but is finite.
            record.curve[0].test = -1e300;
            record.curve[0].validation = f64::NEG_INFINITY;
            record.errors.insert("rmse".into(), 2.0);
        });
        assert!(error.starts_with("content (found invalid type: null, expected f64"), "{error}");
        assert_eq!(
            refused_forged(|record| record.curve[0].epoch = 1),
            "epochs of the curve (found 1 after 1, expected increasing ones"
        );
        assert_eq!(
            refused_forged(|record| record.chosen.test = 1.0),
            "chosen epoch (found epoch 1, expected a point of the curve"
        );
        assert_eq!(
            refused_forged(|record| record.seconds = -1.0),
            "sweeps, seconds, errors, C or gamma (found -1, expected 0 or more"
        );
        let error = check_items(&path, &record(), [5, 3, 2]).unwrap_err().to_string();
        let expected = format!("fold.json: graphs (found 6/2/2, expected 5/3/2: {AGAIN})");
        assert!(error.ends_with(&expected), "{error}");
    }

    #[test]
    fn a_fold_without_its_own_files_is_not_finished() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FOLD);
        let [model, metrics] = [MODEL, METRICS].map(|name| dir.path().join(name));
        fs::write(&model, "a model").unwrap();
        fs::write(&metrics, "").unwrap();
        let files = FoldFiles::of(dir.path(), Lines::default()).unwrap();
        write(&path, "12ab", files, &record()).unwrap();
        let refused = || read(&path, "12ab", 2).unwrap_err().to_string();
        let hint = ": restore the file, or remove fold.json beside it, and --resume trains the fold \
                    again)";
        fs::write(&model, "another").unwrap();
        let error = refused();
        let start = format!("{}: checksum (found ", model.display());
        assert!(error.starts_with(&start) && error.ends_with(hint), "{error}");
        fs::remove_file(&model).unwrap();
        let expected = "checksum (found none, expected the file of a finished fold";
        assert_eq!(refused(), format!("{}: {expected}{hint}", model.display()));
        fs::write(&model, "a model").unwrap();
        read(&path, "12ab", 2).unwrap();
        let mut lines = MetricsWriter::create(&metrics).unwrap();
        lines.epoch(&testing::record(0)).unwrap();
        assert!(refused().starts_with(&format!("{}: checksum (found ", metrics.display())));
        // Whole lines that are right, and more.
        let files = FoldFiles::of(dir.path(), lines.lines()).unwrap();
        write(&path, "12ab", files, &record()).unwrap();
        read(&path, "12ab", 2).unwrap();
        let whole = fs::read(&metrics).unwrap();
        for (more, found) in [
            (&b"{\"epoch\":1,\"lo"[..], "no end of the line, expected none or a whole line"),
            (&b"\0\0\n"[..], "expected value at column 1, expected the record of an epoch"),
        ] {
            fs::write(&metrics, [&whole, more].concat()).unwrap();
            let expected = format!("{}: line 2 (found {found}{hint}", metrics.display());
            assert_eq!(refused(), expected);
        }
        // As older versions wrote it.
        write(&path, "12ab", FoldFiles::default(), &record()).unwrap();
        assert_eq!(read(&path, "12ab", 2).unwrap(), record());
    }
}
