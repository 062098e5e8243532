//! The figures of a cross-validation as text.

use std::path::Path;

use ignn::metrics::{MeanDeviation, Metric};
use ignn::report::crossvals::{protocols, shown};
use ignn::report::quantity;
use ignn::report::runs::score_name;
use ignn::report::sheet::Sheet;
use ignn::run::{CrossvalDir, CrossvalSummary};
use ignn::train::crossval::{FoldRecord, Summary};

use super::shell;
use crate::options::verification;

/// A cross-validation, finished or not.
pub struct CrossvalReport<'a> {
    pub summary: &'a CrossvalSummary,
    /// The finished folds with their curves.
    pub records: &'a [FoldRecord],
    pub out: Option<&'a Path>,
}

impl CrossvalReport<'_> {
    /// A table of folds, the figures by all protocols, and the next command.
    pub fn as_text(&self) -> String {
        let has_svm = self.records.iter().any(|record| record.svm.is_some());
        let metric = self.summary.metric;
        let items = format!("{}s", self.summary.item);
        let mut header = vec!["fold", &items, "epoch", "validation", "test", "best test"];
        header.extend(has_svm.then_some(["svm C", "svm gamma", "svm test"]).iter().flatten());
        header.extend(["sweeps", "time"]);
        let mut sheet = Sheet::columns(&header);
        for record in self.records {
            let mut cells = vec![
                record.fold.to_string(),
                record.items.map(|count| count.to_string()).join("/"),
                record.chosen.epoch.to_string(),
                shown(metric, record.chosen.validation),
                shown(metric, record.chosen.test),
                shown(metric, record.best_test()),
            ];
            if let Some(svm) = &record.svm {
                let gamma = svm.gamma.map_or("-".into(), |gamma| format!("{gamma:.1e}"));
                cells.extend([format!("{}", svm.c), gamma, shown(metric, svm.test)]);
            }
            let [forward, adjoint] = record.sweeps;
            cells.extend([
                format!("{forward:.0} + {adjoint:.0}"),
                quantity::seconds(record.seconds),
            ]);
            sheet.row(cells);
        }
        let mut text = sheet.render();
        if let Some(figures) = &self.summary.summary {
            text += &format!("\n{}", as_sheet(figures, metric));
        }
        let failures = self.records.iter().map(|record| record.failures);
        let failures = failures.fold(0, u64::saturating_add);
        if failures > 0 {
            text += &format!("\nsolves that did not converge: {failures}\n");
        }
        let (done, all) = (self.records.len(), self.summary.folds_asked_for);
        text +=
            &format!("\n{done} of {all} folds in {}, ", quantity::seconds(self.summary.seconds));
        let at_once = self.summary.machine.folds_at_once as u64;
        text += &format!("{} at a time\n", quantity::plural(at_once, "fold", "folds"));
        if let Some(files) = verification::words(&self.summary.dataset.not_verified) {
            text += &format!("not verified: {files}\n");
        }
        match (done < all, self.out) {
            (true, Some(out)) => {
                text += &format!("next: ignn crossval --resume {}\n", shell::path(out));
            }
            (true, None) if done == 0 => {
                text += "stopped before the first fold was finished: nothing was kept\n";
            }
            (true, None) => text += "stopped: nothing was kept, because there is no --out\n",
            (false, Some(out)) => {
                text += &format!("figures: {}\n", CrossvalDir::new(out).summary_file().display());
            }
            (false, None) => {}
        }
        text
    }
}

/// The figures by all protocols.
fn as_sheet(summary: &Summary, metric: Metric) -> String {
    let score = format!("{} on test", score_name(metric.name()));
    let mut sheet = Sheet::columns(&[&score, "mean", "deviation", "epoch"]);
    for (name, MeanDeviation { mean, deviation }, epoch) in protocols(summary) {
        sheet.row([name.to_string(), shown(metric, mean), shown(metric, deviation), epoch]);
    }
    for (name, error) in &summary.errors {
        let cells = [error.mean, error.deviation].map(|value| quantity::score(Metric::Rmse, value));
        let [mean, deviation] = cells;
        sheet.row([score_name(name), mean, deviation, "as for validation".into()]);
    }
    sheet.render()
}

/// One line for a finished fold: `test 91.7 % at epoch 40, 2.31 s`, or with R2 where there are errors.
pub fn in_short(record: &FoldRecord) -> String {
    let (name, metric) = match record.errors.is_empty() {
        true => ("test", Metric::Accuracy),
        false => ("test R2", Metric::R2),
    };
    let (test, time) = (shown(metric, record.chosen.test), quantity::seconds(record.seconds));
    format!("{name} {test} at epoch {}, {time}", record.chosen.epoch)
}
