//! Runs commands of this program one after another, each as a process of its own, so that each can
//! be repeated by hand. Finished results are kept; a signal is passed on to the current command,
//! which ends in order.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ignn::graph::Graph;
use ignn::report::study::Dataset;
use ignn_format::storage;

use super::experiment::Readout;
use super::plan::{Plan, State, Trial};
use super::sources::{self, Recipe};
use super::text;
use crate::Session;
use crate::terminal::{messages, printer, shell};

/// How often a running command is polled.
const POLL: Duration = Duration::from_millis(20);

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It finished; some solve may not have converged.
    Finished,
    /// A signal ended it.
    Stopped,
}

/// A command that has ended.
struct Executed {
    ended: Ended,
    /// Its message, if it failed.
    failure: Option<String>,
    /// What it printed to standard output.
    printed: String,
}

/// A dataset that exists.
#[derive(Clone)]
pub struct Ready {
    pub path: PathBuf,
    pub graph: Graph,
    pub checksum: String,
}

/// Runs commands in one output directory.
pub struct Runner {
    program: PathBuf,
    out: PathBuf,
    shared: Vec<String>,
    is_quiet: bool,
    stop: &'static AtomicBool,
    commands: Vec<String>,
    datasets: Vec<Dataset>,
}

impl Runner {
    /// For this output directory.
    pub fn new(session: &Session, out: &Path) -> Result<Self> {
        let shared = [
            "--threads".into(),
            session.threads.to_string(),
            "--memory".into(),
            format!("{}KiB", session.memory >> 10),
        ];
        let mut shared = Vec::from(shared);
        shared.extend(session.no_sync.then(|| "--no-sync".into()));
        Ok(Self {
            program: std::env::current_exe().context("the program's own file")?,
            out: out.into(),
            shared,
            is_quiet: session.quiet,
            stop: messages::ask_to_stop(),
            commands: Vec::new(),
            datasets: Vec::new(),
        })
    }

    /// Directory of intermediate files.
    pub fn work(&self) -> PathBuf {
        self.out.join("data")
    }

    /// All commands so far, also those whose results were kept.
    pub fn commands(&self) -> &[String] {
        &self.commands
    }

    /// All datasets so far.
    pub fn datasets(&self) -> &[Dataset] {
        &self.datasets
    }

    fn print(&self, line: &str) {
        if !self.is_quiet {
            printer::message(line);
        }
    }

    fn note_command(&mut self, words: &[String]) {
        let line = format!("ignn {}", words.iter().map(shell::word).collect::<Vec<_>>().join(" "));
        if !self.commands.contains(&line) {
            self.commands.push(line);
        }
    }

    /// Makes a dataset unless the same recipe made it before; `None` after a signal.
    pub fn dataset(&mut self, recipe: &Recipe) -> Result<Option<Ready>> {
        let path = self.work().join(format!("{}.ignn", recipe.name));
        let stamp = self.work().join(format!("{}.recipe", recipe.name));
        let figures = self.work().join(format!("{}.json", recipe.name));
        let (mut commands, mut made) = (recipe.commands.clone(), String::new());
        if let Some(last) = commands.last_mut() {
            last.extend(["--out".into(), text(&path)]);
        }
        let recipe_text = commands.iter().map(|words| words.join(" ") + "\n").collect::<String>();
        commands.iter().for_each(|words| self.note_command(words));
        let is_there = fs::read_to_string(&stamp).is_ok_and(|found| found == recipe_text)
            && Graph::open(&path).is_ok();
        if !is_there {
            storage::create_directory(&self.work())?;
            for (at, words) in commands.iter().enumerate() {
                let mut words = words.clone();
                if at + 1 == commands.len() {
                    words.push("--force".into());
                }
                self.print(&format!("data: ignn {}", words.join(" ")));
                words.push("--json".into());
                let done = self.execute(&words)?;
                match (done.ended, done.failure) {
                    (Ended::Stopped, _) => return Ok(None),
                    (Ended::Finished, Some(failure)) => {
                        bail!("{}: cannot be made: {failure}", text(&path))
                    }
                    (Ended::Finished, None) => made = done.printed,
                }
                if let Some(raw) =
                    words.iter().position(|word| word == "--raw").and_then(|at| words.get(at + 1))
                {
                    sources::communities_of_labels(Path::new(raw))?;
                }
            }
            storage::write_file(&figures, made.as_bytes())?;
            storage::write_file(&stamp, recipe_text.as_bytes())?;
        }
        let graph = Graph::open(&path)?;
        let checksum = graph.manifest().checksum();
        if !self.datasets.iter().any(|known| known.name == recipe.name) {
            let made = fs::read_to_string(&figures).unwrap_or_default();
            self.datasets.push(facts(&recipe.name, &graph, &made));
        }
        Ok(Some(Ready { path, graph, checksum }))
    }

    /// Measures sweeps over a dataset on several numbers of threads, unless that was done before;
    /// false after a signal.
    pub fn measure_sweeps(&mut self, dataset: &Ready, width: usize) -> Result<bool> {
        let width = width.to_string();
        let words =
            ["bench", "sweep", &text(&dataset.path), "--state", &width].map(String::from).to_vec();
        self.note_command(&words);
        let name = dataset.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let measured = self.work().join(format!("{name}-{width}-{}.json", dataset.checksum));
        if !measured.exists() {
            self.print(&format!("sweeps: ignn {}", words.join(" ")));
            let done = self.execute(&[words, vec!["--json".into()]].concat())?;
            match (done.ended, done.failure) {
                (Ended::Stopped, _) => return Ok(false),
                (Ended::Finished, Some(failure)) => bail!("sweeps over {name}: {failure}"),
                (Ended::Finished, None) => {
                    storage::write_file(&measured, done.printed.as_bytes())?;
                }
            }
        }
        let found = fs::read_to_string(&measured).with_context(|| text(&measured))?;
        let found: serde_json::Value =
            serde_json::from_str(&found).with_context(|| text(&measured))?;
        if let Some(known) = self.datasets.iter_mut().find(|known| known.name == name) {
            known.scaling = serde_json::from_value(found["scaling"].clone())
                .with_context(|| text(&measured))?;
        }
        Ok(true)
    }

    /// Trains a method with every seed and its dataset, or reads finished runs.
    pub fn train_seeds(&mut self, plan: &Plan, seeds: &[(u64, Ready)]) -> Result<Trial> {
        let failed =
            |failure: String| Trial { failure: Some(failure), ..Trial::new(Ended::Finished) };
        if plan.readout == Readout::Lookup {
            // Seeds change nothing.
            let Some((_, dataset)) = seeds.first() else { return Ok(Trial::new(Ended::Finished)) };
            return Ok(plan
                .look_up(&dataset.graph)
                .unwrap_or_else(|error| failed(error.to_string())));
        }
        let root = self.out.join("runs").join(&plan.directory);
        let mut directories = Vec::new();
        for (seed, dataset) in seeds {
            let seed = *seed;
            let config = match plan.config(seed) {
                Ok(config) => config,
                Err(error) => return Ok(failed(error.to_string())),
            };
            let directory = root.join(format!("seed-{seed}"));
            let words = plan.arguments(&dataset.path, &directory, seed);
            self.note_command(&words);
            let state = plan.state(&directory, &config, &dataset.checksum);
            let words = match state {
                State::Done => {
                    directories.push(directory);
                    continue;
                }
                State::Begun => vec![words[0].clone(), "--resume".into(), text(&directory)],
                State::Other => [words, vec!["--force".into()]].concat(),
            };
            self.print(&format!("{}: seed {seed}", plan.directory.display()));
            let done = self.execute(&words)?;
            match (done.ended, done.failure) {
                (Ended::Stopped, _) => {
                    let mut trial = self.so_far(plan, &directories)?;
                    trial.ended = Ended::Stopped;
                    return Ok(trial);
                }
                (Ended::Finished, Some(failure)) => return Ok(failed(failure)),
                (Ended::Finished, None) => directories.push(directory),
            }
        }
        plan.read(&directories)
    }

    fn so_far(&self, plan: &Plan, directories: &[PathBuf]) -> Result<Trial> {
        match directories.is_empty() {
            true => Ok(Trial::new(Ended::Stopped)),
            false => plan.read(directories),
        }
    }

    /// Runs this program with these arguments.
    fn execute(&self, words: &[String]) -> Result<Executed> {
        let stopped =
            || Ok(Executed { ended: Ended::Stopped, failure: None, printed: String::new() });
        if self.stop.load(Ordering::Relaxed) {
            return stopped();
        }
        let mut command = Command::new(&self.program);
        command.args(words).args(&self.shared).arg("--quiet");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        // A signal from a terminal must reach this process alone, which passes it on once: a second
        // one would end the command at once.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().with_context(|| text(&self.program))?;
        let readers = [read(child.stdout.take()), read(child.stderr.take())];
        let status = self.wait(&mut child)?;
        let [printed, said] =
            readers.map(|reader| reader.and_then(|reader| reader.join().ok()).unwrap_or_default());
        let finished = |failure| Ok(Executed { ended: Ended::Finished, failure, printed });
        match status.code() {
            // Exit code 1 means a solve that did not converge: the run is complete, and its records
            // say so.
            Some(0 | 1) => finished(None),
            Some(code) if code == i32::from(messages::STOPPED) => stopped(),
            _ if self.stop.load(Ordering::Relaxed) => stopped(),
            _ => {
                let line =
                    said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message");
                finished(Some(line.trim_start_matches("error: ").into()))
            }
        }
    }

    /// Waits for a command. A signal to this process is passed on once.
    fn wait(&self, child: &mut Child) -> Result<std::process::ExitStatus> {
        let mut is_passed_on = false;
        loop {
            if let Some(status) = child.try_wait().context("a command of this program")? {
                return Ok(status);
            }
            if self.stop.load(Ordering::Relaxed) && !is_passed_on {
                is_passed_on = true;
                terminate(child);
            }
            thread::sleep(POLL);
        }
    }
}

/// Reads what a command prints while it runs: a full pipe would block it. Where the system refuses
/// another thread, the pipe is closed and the text is missing.
fn read<R: Read + Send + 'static>(pipe: Option<R>) -> Option<thread::JoinHandle<String>> {
    let mut pipe = pipe?;
    let read = move || {
        let mut said = String::new();
        let _ = pipe.read_to_string(&mut said);
        said
    };
    thread::Builder::new().spawn(read).ok()
}

/// A dataset with what the command that made it has printed with --json.
fn facts(name: &str, graph: &Graph, made: &str) -> Dataset {
    let made: serde_json::Value = serde_json::from_str(made).unwrap_or_default();
    let relations = &graph.manifest().relations;
    Dataset {
        name: name.into(),
        nodes: graph.manifest().nodes,
        nonzeros: relations.iter().map(|relation| relation.nonzeros).sum(),
        bytes_on_disk: made["bytes_on_disk"].as_u64(),
        seconds: made["seconds"].as_f64(),
        peak_bytes: made["peak_memory_bytes"].as_u64(),
        scaling: Vec::new(),
    }
}

/// Asks a command to stop. It may have ended by itself: then there is nothing to stop.
#[cfg(unix)]
fn terminate(child: &mut Child) {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
}

/// Ends a command; elsewhere there is no signal that it could act on.
#[cfg(not(unix))]
fn terminate(child: &mut Child) {
    let _ = child.kill();
}
