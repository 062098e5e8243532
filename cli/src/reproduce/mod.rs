//! `ignn reproduce`: an experiment of the paper with one command. `experiments` is a table of data,
//! methods and settings; this module runs what is missing and writes the results.

mod experiment;
mod experiments;
mod plan;
mod runner;
mod sources;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use ignn::config::Config;
use ignn::config::presets::{self, Chosen};
use ignn::report::study::{Choice, Figure, Panel as Shown, Published, Row, Study};
use ignn_format::storage::{self, MarkedDirectory};

use crate::commands::train::{Seeds, parse_seeds};
use crate::{Outcome, Session, machine};
use experiment::{Experiment, Method, Panel, Point, Repeats};
use experiments::EXPERIMENTS;
use plan::{Plan, Trial};
use runner::{Ended, Ready, Runner};
use sources::Source;

/// The directory of an experiment.
const MADE: MarkedDirectory = MarkedDirectory {
    marker: ".made-by-ignn-reproduce",
    what: "an experiment",
    names: &["data/", "runs/", RESULTS, TABLES[0], TABLES[1], TEXT, PAGE],
};
/// All results, for other programs.
const RESULTS: &str = "results.json";
/// The same figures as tables.
const TABLES: [&str; 2] = ["results.csv", "results.parquet"];
/// The same as Markdown.
const TEXT: &str = "results.md";
/// The HTML page.
const PAGE: &str = "report.html";
/// Seeds by default, and by default in the quick form.
const SEEDS: (&str, &str) = ("0..9", "0..1");
/// The same of cross-validations, which train every fold with every seed.
const CROSSVAL_SEEDS: (&str, &str) = ("0..2", "0");

/// Settings that make a method or a point what it is.
const FIXED: [&str; 5] =
    ["model.kind", "train.split", "train.train_part", "train.validation_part", "train.test_part"];

/// Reproduce an experiment of the paper
///
/// Prepares the data, trains every method with every seed, and writes into --out: report.html (the
/// figure or table beside the published figures), results.json, results.csv, results.parquet,
/// results.md, and all runs, each as `ignn train` or `ignn crossval` leaves it. Figures are means
/// and standard deviations by two protocols: the epoch chosen on the validation part, which is fair,
/// and the best epoch on the test part, as papers often report it.
///
/// Data come from --data, a directory with one folder per public dataset (made by
/// scripts/fetch-datasets). If a public dataset is missing, a generated one of similar shape
/// replaces it, and the output says so; graph classification and networks of several relations have
/// no replacement and are left out.
///
/// The same command continues where it was stopped: finished runs with the same settings are kept,
/// and an interrupted run continues from its checkpoint.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn reproduce chains --quick --out chains            minutes
  ignn reproduce chains --out chains                    hours: ten seeds, all lengths
  ignn reproduce graphs --data ../data --out graphs --only MUTAG
  ignn reproduce amazon --data ../data --out amazon --seeds 0..2 --only IGNN,'label propagation'")]
pub struct Command {
    /// The experiment
    #[arg(value_enum, value_name = "EXPERIMENT")]
    experiment: Name,

    /// A directory with one folder per public dataset; not needed for chains
    #[arg(long, value_name = "DIR", default_value = "data")]
    data: PathBuf,

    /// The directory for data, runs and results
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Fewer points, seeds and epochs: takes minutes, with figures that are not comparable
    #[arg(long)]
    quick: bool,

    /// Seeds, such as 0..9 (inclusive) or 1,5,7 [default: 0..9, quick: 0..1; of cross-validations,
    /// each with folds of its own: 0..2, quick: 0]
    #[arg(long, value_name = "SEEDS", value_parser = parse_seeds)]
    seeds: Option<Seeds>,

    /// Only these points and methods, by their names in the output, such as IGNN or 100
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,

    /// A setting that overrides all others, such as train.epochs=20; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,

    /// Use an existing directory that has nothing but files of an experiment in it
    #[arg(long)]
    force: bool,
}

/// The experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Accuracy on chains by their length, and by the depth of the baselines
    Chains,
    /// The same with deep baselines
    Oversmoothing,
    /// Communities of a large graph, by the fraction of training nodes
    Amazon,
    /// Proteins: unseen graphs with 121 labels
    Ppi,
    /// Graph classification, by cross-validation
    Graphs,
    /// Networks with several relations
    Heterogeneous,
}

impl Name {
    fn experiment(self) -> &'static Experiment {
        let word =
            self.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default();
        EXPERIMENTS
            .iter()
            .find(|experiment| experiment.name == word)
            .expect("an experiment for every name")
    }
}

impl Command {
    /// Runs what is missing, and writes the results.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        let experiment = self.experiment.experiment();
        self.check_names(experiment)?;
        Config::resolve(None, None, &self.sets)?;
        // The rows of a table are named by their kind and the points by their split.
        let mut keys = self.sets.iter().filter_map(|set| Some(set.split_once('=')?.0.trim()));
        if let Some(key) = keys.find(|key| FIXED.contains(key)) {
            bail!(
                "--set {key}: each method and point of the experiment has its own: choose with --only"
            );
        }
        for path in [&self.out, &self.data] {
            // It becomes part of commands, which the page shows as text.
            if path.to_str().is_none() {
                bail!("{}: `reproduce` needs a path of valid UTF-8", path.display());
            }
        }
        let _lock = MADE.claim(&self.out, self.force)?;
        let mut runner = Runner::new(session, &self.out)?;
        let mut study = self.study(experiment, session);
        let mut has_failed = false;
        for panel in experiment.panels {
            let mut shown = Shown {
                id: panel.id.into(),
                title: panel.title.into(),
                points: panel.points_are.into(),
                axis: panel.axis.map(Into::into),
                repeats: self.repeats(panel),
                rows: Vec::new(),
            };
            for point in panel.points.iter().filter(|point| self.takes_point(experiment, point)) {
                let mut measured = None;
                let methods = panel.methods.iter();
                for method in methods
                    .filter(|method| self.takes(method.name, panel.methods.iter().map(|m| m.name)))
                {
                    if self.quick && method.quick.is_none() && !self.names(method.name) {
                        add_note(
                            &mut study,
                            format!(
                                "{0} is left out of the quick form, as it takes long: --only {0} \
                                 runs it",
                                method.name
                            ),
                        );
                        continue;
                    }
                    let source =
                        if method.is_renormalised { point.data.renormalised() } else { point.data };
                    let seeds = self.seeds(panel.repeats);
                    let Some(seeds) =
                        self.with_data(seeds, source, point, &mut runner, &mut study)?
                    else {
                        return self.stopped(session, study, &runner);
                    };
                    if seeds.is_empty() {
                        continue;
                    }
                    let plan =
                        Plan::new(panel, point, method, &self.settings(panel, method), self.quick);
                    if measured.is_none() && point.data == Source::Amazon {
                        let widths = plan.config(0)?.model.state;
                        measured = widths.last().map(|&width| (seeds[0].1.clone(), width));
                    }
                    let trial = runner.train_seeds(&plan, &seeds)?;
                    if let Some(failure) = &trial.failure {
                        has_failed = true;
                        add_note(
                            &mut study,
                            format!("{} failed on {}: {failure}", method.name, point.name),
                        );
                    }
                    shown.rows.extend(rows(panel, point, method, &trial));
                    if trial.ended == Ended::Stopped {
                        study.panels.push(shown);
                        return self.stopped(session, study, &runner);
                    }
                }
                if let Some((dataset, width)) = measured
                    && !runner.measure_sweeps(&dataset, width)?
                {
                    study.panels.push(shown);
                    return self.stopped(session, study, &runner);
                }
            }
            if !shown.rows.is_empty() {
                study.panels.push(shown);
            }
        }
        if study.panels.is_empty() {
            let notes = study.notes.join("; ");
            bail!("nothing to run: {notes}: `scripts/fetch-datasets` gets the public sets");
        }
        self.write(&mut study, &runner)?;
        self.print(session, &study)?;
        Ok(if has_failed { Outcome::Missed } else { Outcome::Done })
    }

    fn study(&self, experiment: &Experiment, session: &Session) -> Study {
        let mut facts = vec![
            ("version of ignn".to_string(), env!("CARGO_PKG_VERSION").to_string()),
            ("day".into(), machine::today()),
            ("cores".into(), machine::cores().to_string()),
            ("threads".into(), session.threads.to_string()),
            ("SIMD".into(), ignn::kernels::Isa::chosen().name().into()),
        ];
        facts.extend(machine::processor().map(|name| ("processor".to_string(), name)));
        Study {
            name: experiment.name.into(),
            title: experiment.title.into(),
            about: experiment.about.into(),
            is_quick: self.quick,
            command: self.line(),
            choices: self.choices(experiment),
            notes: Vec::new(),
            datasets: Vec::new(),
            panels: Vec::new(),
            commands: Vec::new(),
            facts,
        }
    }

    /// The command, with DATA and DIR for its directories.
    fn line(&self) -> String {
        let mut words =
            vec!["ignn reproduce".to_string(), self.experiment.experiment().name.into()];
        words.push("--data DATA --out DIR".into());
        words.extend(self.quick.then(|| "--quick".into()));
        let seeds = self.seeds.as_ref().map(|Seeds(seeds)| listed(seeds, ","));
        words.extend(seeds.map(|seeds| format!("--seeds {seeds}")));
        words.extend((!self.only.is_empty()).then(|| format!("--only '{}'", self.only.join(","))));
        words.extend(self.sets.iter().map(|set| format!("--set '{set}'")));
        words.join(" ")
    }

    /// What a figure of a panel is a mean of.
    fn repeats(&self, panel: &Panel) -> String {
        let seeds = self.seeds(panel.repeats);
        let folds = match panel.repeats {
            Repeats::BySeeds => None,
            Repeats::ByFolds(folds, quick) => Some(if self.quick { quick } else { folds }),
        };
        match (&seeds[..], folds) {
            ([seed], None) => format!("one seed, {seed}"),
            (seeds, None) => format!("seeds {}", listed(seeds, ", ")),
            ([seed], Some(folds)) => format!("{folds} stratified folds, drawn by seed {seed}"),
            (seeds, Some(folds)) => format!(
                "seeds {}, each a mean over {folds} stratified folds that it draws",
                listed(seeds, ", ")
            ),
        }
    }

    /// How the settings of the points' presets and of the baselines were chosen.
    fn choices(&self, experiment: &Experiment) -> Vec<Choice> {
        let mut choices: Vec<Choice> = Vec::new();
        let mut add = |whose: String, chosen: Chosen| {
            if !choices.iter().any(|known| known.whose == whose) {
                let (tried, by) = (chosen.tried.into(), chosen.by.into());
                choices.push(Choice { whose, tried, by, saw_test: chosen.saw_test });
            }
        };
        let points = experiment.panels.iter().flat_map(|panel| panel.points);
        for point in points.filter(|point| self.takes_point(experiment, point)) {
            if let Some(preset) = presets::find(point.preset) {
                add(format!("preset {}", preset.name), preset.chosen);
            }
        }
        add("baselines".into(), experiment.baselines);
        choices
    }

    fn seeds(&self, repeats: Repeats) -> Vec<u64> {
        let (whole, quick) = match repeats {
            Repeats::BySeeds => SEEDS,
            Repeats::ByFolds(..) => CROSSVAL_SEEDS,
        };
        let default = if self.quick { quick } else { whole };
        let seeds = self.seeds.clone().or_else(|| parse_seeds(default).ok());
        seeds.map(|Seeds(seeds)| seeds).unwrap_or_default()
    }

    /// Every seed with its dataset; none if the data are missing. `None` after a signal.
    fn with_data(
        &self,
        wanted: Vec<u64>,
        source: Source,
        point: &Point,
        runner: &mut Runner,
        study: &mut Study,
    ) -> Result<Option<Vec<(u64, Ready)>>> {
        let mut seeds = Vec::new();
        for seed in wanted {
            let Some(recipe) = source.recipe(&self.data, &runner.work(), self.quick, seed)? else {
                let (wanted, data) = (source.wanted(), self.data.display());
                add_note(study, format!("{} is left out: no {wanted} in {data}", point.name));
                break;
            };
            if let Some(note) = &recipe.note {
                add_note(study, note.clone());
            }
            let Some(dataset) = runner.dataset(&recipe)? else { return Ok(None) };
            if let Some(note) = source.note(&recipe, &dataset.graph)? {
                add_note(study, note);
            }
            seeds.push((seed, dataset));
        }
        Ok(Some(seeds))
    }

    fn settings(&self, panel: &Panel, method: &Method) -> Vec<String> {
        let quick = panel.quick.iter().chain(method.quick.unwrap_or_default());
        let quick = quick.filter(|_| self.quick).map(ToString::to_string);
        quick.chain(self.sets.iter().cloned()).collect()
    }

    /// Whether a name is selected: by --only, or because --only has none of its kind.
    fn takes(&self, name: &str, mut kind: impl Iterator<Item = &'static str>) -> bool {
        self.names(name) || !kind.any(|name| self.names(name))
    }

    fn names(&self, name: &str) -> bool {
        self.only.iter().any(|only| only.eq_ignore_ascii_case(name))
    }

    fn takes_point(&self, experiment: &Experiment, point: &Point) -> bool {
        let all = experiment.panels.iter().flat_map(|panel| panel.points);
        // A point that is named is part of the quick form too.
        self.names(point.name)
            || (self.takes(point.name, all.map(|point| point.name))
                && (point.is_quick || !self.quick))
    }

    /// Refuses unknown names: a typing error should not give an empty result.
    fn check_names(&self, experiment: &Experiment) -> Result<()> {
        let points =
            experiment.panels.iter().flat_map(|panel| panel.points.iter().map(|point| point.name));
        let methods = experiment
            .panels
            .iter()
            .flat_map(|panel| panel.methods.iter().map(|method| method.name));
        let mut names: Vec<&str> = Vec::new();
        for name in points.chain(methods) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        for only in &self.only {
            if !names.iter().any(|name| only.eq_ignore_ascii_case(name)) {
                bail!("--only {only}: not in this experiment (it has: {})", names.join(", "));
            }
        }
        Ok(())
    }

    fn write(&self, study: &mut Study, runner: &Runner) -> Result<()> {
        study.commands = runner.commands().to_vec();
        study.datasets = runner.datasets().to_vec();
        let results = format!("{:#}\n", study.as_json());
        storage::write_file(&self.out.join(RESULTS), results.as_bytes())?;
        for table in TABLES {
            study.write_table(&self.out.join(table))?;
        }
        storage::write_file(&self.out.join(TEXT), study.as_markdown().as_bytes())?;
        let page = study.page().render();
        Ok(storage::write_file(&self.out.join(PAGE), page.as_bytes())?)
    }

    fn print(&self, session: &Session, study: &Study) -> Result<()> {
        match session.json {
            true => session.print_json(&study.as_json()),
            false => {
                let page = self.out.join(PAGE);
                session.print(&format!("{}\npage: {}\n", study.as_text(), page.display()))
            }
        }
    }

    /// Writes and prints the results so far.
    fn stopped(&self, session: &Session, mut study: Study, runner: &Runner) -> Result<Outcome> {
        add_note(&mut study, "stopped: the same command continues from here".into());
        self.write(&mut study, runner)?;
        self.print(session, &study)?;
        Ok(Outcome::Stopped)
    }
}

fn listed(seeds: &[u64], between: &str) -> String {
    seeds.iter().map(ToString::to_string).collect::<Vec<_>>().join(between)
}

/// Adds a note unless it is there already.
fn add_note(study: &mut Study, note: String) {
    if !study.notes.contains(&note) {
        study.notes.push(note);
    }
}

/// One row per score.
fn rows(panel: &Panel, point: &Point, method: &Method, trial: &Trial) -> Vec<Row> {
    let row = |score: &&str| {
        let published =
            method.published.iter().filter(|one| one.point == point.name && one.score == *score);
        let figures = trial.figures.get(*score);
        let (validation, best_test): (Option<Figure>, Option<Figure>) =
            figures.cloned().unwrap_or_default();
        Row {
            point: point.name.into(),
            x: point.x,
            method: method.name.into(),
            score: score.to_string(),
            validation,
            best_test,
            published: published
                .map(|one| Published {
                    value: one.value / 100.0,
                    deviation: one.deviation.map(|deviation| deviation / 100.0),
                    source: one.source.into(),
                })
                .collect(),
            cost: trial.cost.clone(),
            failure: trial.failure.clone(),
        }
    };
    panel.scores.iter().map(row).collect()
}

/// A name reduced to letters, digits and hyphens, for directories.
fn slug(name: &str) -> String {
    let words: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    words.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

/// A path for messages and commands.
fn text(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_experiment() {
        let words: Vec<&str> =
            Name::value_variants().iter().map(|name| name.experiment().name).collect();
        let table: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        assert_eq!(words, table);
    }

    #[test]
    fn the_results_say_how_every_preset_was_chosen() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/results.md");
        let text = std::fs::read_to_string(path).unwrap();
        for presets::Preset { name, chosen: Chosen { tried, by, .. }, .. } in presets::PRESETS {
            let row = format!("| `{name}` | {tried} | {by} |");
            assert!(text.contains(&row), "docs/results.md has no row {row}");
        }
    }

    #[test]
    fn documented_results_come_from_their_files() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/results");
        let (mut pages, mut files) = (Vec::new(), 0);
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "md") {
                pages.push(path.clone());
            }
            if path.extension().is_none_or(|ending| ending != "json") {
                continue;
            }
            let study = Study::from_json(&std::fs::read_to_string(&path).unwrap());
            let study = study.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(!study.is_quick, "{}: figures of the quick form", path.display());
            let is_local = |command: &String| command.contains(" /");
            assert!(!study.commands.iter().any(is_local), "{}: local paths", path.display());
            let page = path.with_extension("md");
            let name = path.file_name().unwrap().display().to_string();
            let text = study.as_markdown().replace("\n### ", "\n## ");
            let text = format!(
                "<!-- Written from {name}: `IGNN_REWRITE=1 cargo test --bin ignn documented`. -->\n\n{}",
                text.replacen("## ", "# ", 1)
            );
            if std::env::var_os("IGNN_REWRITE").is_some() {
                std::fs::write(&page, &text).unwrap();
                pages.push(page.clone());
            }
            let found = std::fs::read_to_string(&page).unwrap_or_default();
            assert!(found == text, "{}: not what {name} says", page.display());
            files += 1;
        }
        pages.sort();
        pages.dedup();
        assert_eq!(pages.len(), files, "every page of docs/results has its file");
        assert!(files > 0);
    }

    #[test]
    fn names_become_directories() {
        assert_eq!(
            [slug("5 %"), slug("label propagation"), slug("MUTAG")],
            ["5", "label-propagation", "mutag"]
        );
    }
}
