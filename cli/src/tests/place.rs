//! A directory in which commands run inside of the test's own process, and what is in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Parser;
use ignn::parallel::Alone;
use tempfile::TempDir;

use crate::{Cli, Outcome};

/// Paths below a directory; files with their bytes, directories with none.
pub type Tree = BTreeMap<PathBuf, Option<Vec<u8>>>;

pub struct Place {
    directory: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub fn root(&self) -> &Path {
        self.directory.path()
    }

    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Runs a command quietly; `@name` is a path in this directory.
    pub fn run(&self, line: &str) -> Result<Outcome> {
        let word = |word: &str| match word.strip_prefix('@') {
            Some(name) => self.root().join(name).to_str().unwrap().to_string(),
            None => word.to_string(),
        };
        let words = ["ignn", "-q"].into_iter().chain(line.split_whitespace()).map(word);
        Cli::try_parse_from(words)
            .unwrap_or_else(|error| panic!("{line}: {error}"))
            .run(&Alone::shared())
    }

    #[track_caller]
    pub fn succeeds(&self, line: &str) -> &Self {
        match self.run(line) {
            Ok(Outcome::Done) => self,
            other => panic!("{line}: {other:?}"),
        }
    }

    pub fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        visit(self.root(), self.root(), &mut tree);
        tree
    }

    /// Makes the directory hold exactly this.
    pub fn restore(&self, wanted: &Tree) {
        let found = self.tree();
        // In reverse, because children come after their parents.
        for (path, content) in found.iter().rev().filter(|(path, _)| !wanted.contains_key(*path)) {
            let path = self.root().join(path);
            match content {
                Some(_) => fs::remove_file(path).unwrap(),
                None => fs::remove_dir(path).unwrap(),
            }
        }
        for (path, content) in wanted.iter().filter(|(path, at)| found.get(*path) != Some(*at)) {
            let path = self.root().join(path);
            match content {
                Some(bytes) => fs::write(path, bytes).unwrap(),
                None => fs::create_dir(path).unwrap(),
            }
        }
    }
}

fn visit(at: &Path, root: &Path, tree: &mut Tree) {
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_path_buf();
        if path.is_dir() {
            tree.insert(name, None);
            visit(&path, root, tree);
        } else {
            tree.insert(name, Some(fs::read(&path).unwrap()));
        }
    }
}

/// The part of a tree at and below a path.
pub fn below(tree: &Tree, path: &str) -> Tree {
    let inside = tree.iter().filter(|(name, _)| name.starts_with(path));
    inside.map(|(name, content)| (name.clone(), content.clone())).collect()
}

/// The part of a tree that is not at or below any of these paths.
pub fn outside(tree: &Tree, paths: &[&str]) -> Tree {
    let outside = tree.iter().filter(|(name, _)| !paths.iter().any(|path| name.starts_with(path)));
    outside.map(|(name, content)| (name.clone(), content.clone())).collect()
}

/// Names of drafts at any depth.
pub fn drafts(tree: &Tree) -> Vec<&PathBuf> {
    tree.keys().filter(|path| path.to_string_lossy().contains(".ignn-draft")).collect()
}

/// A tree without drafts.
pub fn finished(tree: &Tree) -> Tree {
    let drafts = drafts(tree);
    let finished = tree.iter().filter(|(path, _)| !drafts.contains(path));
    finished.map(|(path, content)| (path.clone(), content.clone())).collect()
}

/// Two small datasets: communities to train on, and graphs to cross-validate on.
pub fn with_datasets() -> Place {
    let place = Place::new();
    place.succeeds("generate sbm --nodes 40 --blocks 2 --probabilities 0.4,0.1 --seed 3 --out @s");
    // Rings of four nodes and stars of four nodes.
    let (mut edges, mut indicator, mut labels) = (String::new(), String::new(), String::new());
    for graph in 0..8 {
        let pairs = [[(1, 2), (2, 3), (3, 4), (4, 1)], [(1, 2), (1, 3), (1, 4), (1, 4)]];
        for (from, to) in pairs[graph % 2] {
            let (from, to) = (graph * 4 + from, graph * 4 + to);
            edges.push_str(&format!("{from}, {to}\n{to}, {from}\n"));
        }
        indicator.push_str(&format!("{}\n", graph + 1).repeat(4));
        labels.push_str(&format!("{}\n", graph % 2));
    }
    place.file("tu/tu_A.txt", edges).file("tu/tu_graph_indicator.txt", indicator);
    place.file("tu/tu_graph_labels.txt", labels);
    place.succeeds("ingest tu @tu --normalise none --out @g");
    place
}

/// Settings with which training takes milliseconds.
pub const TINY: &str = "--epochs 2 --set model.state=2";
