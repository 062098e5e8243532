//! `ignn eval`: scores a model on a dataset and prints tables. Predictions themselves are written by
//! `predict`.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use ignn::config::find_part;
use ignn::parallel::Alone;
use ignn::predict::{Evaluation, PartScores, Parts, Truth};
use ignn_ingest::{Observer, Unit};

use crate::options::scratch::ScratchArgs;
use crate::ranks::agree;
use crate::terminal::on_dataset::{ModelArgs, ModelReport, Opened};
use crate::terminal::progress::Console;
use crate::terminal::score_tables;
use crate::{Outcome, Session};

/// Score a trained model on a dataset
///
/// Solves the model's equation on the dataset's graph and compares predictions with labels, for each
/// part of the split. Single labels are scored by accuracy, balanced accuracy (the mean recall of the
/// classes) and F1. Multiple labels are scored by F1, once with a threshold of 0.5 and once by the
/// top-k rule, which takes as many labels as the node really has. Both have ROC-AUC and average
/// precision: of the second class where there are two, otherwise the mean over classes, each against
/// the rest. Log loss is the mean negative logarithm of the probability of the true class; of
/// multiple labels, over all pairs of node and class. Numbers are scored by R2, RMSE and MAE, in
/// their own unit; the error bound is the largest one of `ignn predict`. Definitions are those of
/// scikit-learn.
///
/// Nodes without labels are skipped. Models of whole graphs are scored by graph.
///
/// Results by class and the confusion matrix are printed for one part; --json has them for all.
///
/// The output also says how far to trust the solve: whether the solution is unique on this graph,
/// sweeps, residual, and the largest possible error of the state. If the solve does not converge,
/// the exit code is 1.
///
/// Matrices that do not fit in --memory lie on a disk, in --scratch, which changes the time and not
/// the scores.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn eval cora.ignn --model runs/cora
  ignn eval cora.ignn --model runs/cora --part validation
  ignn eval cora.ignn --model runs/cora --json | jq '.evaluation.parts[] | {part, accuracy}'")]
pub struct Command {
    #[command(flatten)]
    model: ModelArgs,

    /// Split of the dataset [default: the one the model was trained on]
    #[arg(long, value_name = "NAME")]
    split: Option<String>,

    /// Part to show results by class for [default: the model's test part]
    #[arg(long, value_name = "NAME")]
    part: Option<String>,

    #[command(flatten)]
    scratch: ScratchArgs,
}

/// Scores of a run's test part on the dataset that it was trained on.
pub fn of_run(run: &Path, dataset: &Path, console: &Console) -> Result<PartScores> {
    let model = ModelArgs::new(dataset.into(), run.into());
    let (_, mut evaluation, shown) =
        Command { model, split: None, part: None, scratch: ScratchArgs::default() }
            .evaluate(None, console)?;
    Ok(evaluation.parts.swap_remove(shown))
}

impl Command {
    /// Solves, scores and prints.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        let console = Console::new(session.quiet);
        let result = self.evaluate(Some(session), &console);
        // After an error too: the progress bar must be gone before the message.
        console.finish();
        let (report, evaluation, shown) = result?;
        if session.json {
            let mut value = serde_json::to_value(&report)?;
            value["evaluation"] = score_tables::as_json(&evaluation)?;
            value["notes"] = console.notes().into();
            session.print_json(&value)?;
        } else {
            let part = &evaluation.parts[shown];
            session.print(&as_text(&report, &evaluation, part))?;
        }
        Ok(report.outcome())
    }

    /// Within the memory of a session, if there is one.
    fn evaluate(
        &self,
        session: Option<&Session>,
        console: &Console,
    ) -> Result<(ModelReport, Evaluation, usize)> {
        let ranks = session.map_or_else(Alone::shared, |session| Arc::clone(&session.ranks));
        let (opened, truth, parts, shown) = agree(&*ranks, self.prepare(session, console))?;
        let operators = opened.operators(&ranks, console)?;
        let (predictor, mut report) = opened.predictor(&operators, console)?;
        opened.note_mixed(&parts, &report, console);
        let prediction = opened.solve(predictor, &mut report, console)?;
        console.phase("score", None, Unit::Items("nodes"));
        Ok((report, Evaluation::of(&prediction, opened.item, &truth, &parts)?, shown))
    }

    /// What can be refused before the long work.
    fn prepare(
        &self,
        session: Option<&Session>,
        console: &Console,
    ) -> Result<(Opened, Truth, Parts, usize)> {
        let opened = match session {
            Some(session) => {
                self.model.open_within(session, &self.scratch.directory(None), console)?
            }
            None => self.model.open()?,
        };
        // Report problems with labels and splits before the long work.
        let truth = opened.truth(console)?;
        let config = &opened.model.config.train;
        let parts = Parts::of(opened.choice(), self.split.as_deref(), &config.split)?;
        let shown = self.shown(&opened, &parts)?;
        Ok((opened, truth, parts, shown))
    }

    /// Index of the part to show results by class for.
    fn shown(&self, opened: &Opened, parts: &Parts) -> Result<usize> {
        let names: Vec<_> = parts.parts.iter().map(|part| part.name.as_str()).collect();
        let last = names.len().saturating_sub(1);
        let Some(asked) = &self.part else {
            return Ok(find_part(&names, &opened.model.config.train.test_part).unwrap_or(last));
        };
        let place = opened.dataset.directory().path().display();
        find_part(&names, asked).ok_or_else(|| {
            anyhow::anyhow!("{place}: no part {asked:?} (it has: {})", names.join(", "))
        })
    }
}

fn as_text(report: &ModelReport, evaluation: &Evaluation, part: &PartScores) -> String {
    let mut tables = vec![report.as_text(), score_tables::parts(evaluation)];
    tables.extend(score_tables::classes(part));
    tables.extend(score_tables::confusion(part));
    tables.join("\n")
}
