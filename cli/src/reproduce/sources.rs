//! The data of an experiment: public files in a data directory, or a generator if they are missing.
//! It composes the commands `ignn ingest` and `ignn generate`; `runner` runs them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ignn::graph::{Graph, Labels};
use ignn::report::quantity;
use ignn_format::storage;

/// The data of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Generated chains of this length; the parts are drawn by the seed.
    Chains(u64),
    /// SNAP com-Amazon with all its communities; without those, com-DBLP or generated communities.
    Communities,
    /// SNAP com-Amazon with the communities that are there, which may be its 5,000 best only: its
    /// time and memory do not depend on labels.
    Amazon,
    /// The published PPI dataset, or a generated one of its shape, with this normalisation.
    Ppi(&'static str),
    /// Graphs of the TU collection or in DGCNN's format, with this normalisation.
    Collection(&'static str, &'static str),
    /// Several relations, as a specification of `examples/specs` says.
    Relations(&'static str),
}

/// How a dataset is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// Name of the dataset directory, without its extension.
    pub name: String,
    /// The commands in order; the last one takes `--out` and makes the dataset.
    pub commands: Vec<Vec<String>>,
    /// What a reader must know.
    pub note: Option<String>,
}

/// Specifications by their folder of data.
const SPECS: [(&str, &str); 3] = [
    ("acm", include_str!("../../../examples/specs/acm.toml")),
    ("imdb", include_str!("../../../examples/specs/imdb.toml")),
    ("dblp-authors", include_str!("../../../examples/specs/dblp-authors.toml")),
];

/// Communities of com-Amazon with more members than this become labels, as in the paper.
const MEMBERS: &str = "5000";
/// Number of the largest communities that become labels in a replacement.
const LARGEST: &str = "58";
/// Fractions of training nodes, in per cent.
const SHARES: [u32; 5] = [5, 6, 7, 8, 9];
/// Fraction of validation nodes.
const VALIDATION: &str = "0.02";
/// Fraction of test nodes.
const TEST: &str = "0.10";
/// Number of nodes of generated communities, and in the quick form.
const NODES: (u64, u64) = (100_000, 4_000);
/// Positives of the label file that was released with PPI.
const RELEASED_LABELS: u64 = 2_102_769;
/// Positives of a reconstruction of it from annotations of 2014 to 2019.
const RECONSTRUCTED_LABELS: u64 = 2_112_430;
/// Scale of generated PPI graphs in the quick form: the smallest that the generator accepts.
const QUICK_PPI: &str = "0.075";

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// The first of these files that exists, compressed or not.
fn find(directory: &Path, names: &[&str]) -> Option<PathBuf> {
    let endings = ["", ".gz", ".zst"];
    let candidates = names
        .iter()
        .flat_map(|name| endings.map(|ending| directory.join(format!("{name}{ending}"))));
    candidates.into_iter().find(|path| path.is_file())
}

impl Source {
    /// How to make the dataset of a seed; `work` takes intermediate files. `None` if the data are
    /// missing and nothing replaces them.
    pub fn recipe(
        self,
        data: &Path,
        work: &Path,
        is_quick: bool,
        seed: u64,
    ) -> Result<Option<Recipe>> {
        Ok(match self {
            Self::Chains(length) => Some(Recipe {
                name: format!("chains-{length}-seed-{seed}"),
                commands: vec![words(&[
                    "generate",
                    "chains",
                    "--length",
                    &length.to_string(),
                    "--seed",
                    &seed.to_string(),
                ])],
                note: None,
            }),
            Self::Communities => Some(communities(data, work, is_quick)),
            Self::Amazon => amazon(data),
            Self::Ppi(normalise) => Some(ppi(data, is_quick, normalise)),
            Self::Collection(name, normalise) => collection(data, name, normalise),
            Self::Relations(name) => relations(data, work, name)?,
        })
    }

    /// What a reader must know of a dataset that was made.
    pub fn note(self, recipe: &Recipe, graph: &Graph) -> Result<Option<String>> {
        let is_public = recipe.commands.iter().any(|words| words.iter().any(|w| w == "ingest"));
        match self {
            Self::Ppi(_) if is_public => {
                let positives = match graph.labels()? {
                    Labels::Multi { of, .. } => of.len(),
                    Labels::Number { .. } => 0,
                    Labels::Single { of, .. } => of.iter().filter(|&&class| class >= 0).count(),
                };
                Ok(Some(labels_of_ppi(positives as u64)))
            }
            _ => Ok(None),
        }
    }

    /// The expected files, for messages.
    pub fn wanted(self) -> String {
        match self {
            Self::Collection("PTC", _) => "dgcnn/PTC.txt or tu/PTC_MR/".into(),
            Self::Collection(name, _) => format!("tu/{name}/"),
            Self::Relations(name) => format!("{name}/"),
            Self::Amazon => "com-amazon/com-amazon.ungraph.txt".into(),
            Self::Chains(_) | Self::Communities | Self::Ppi(_) => "nothing".into(),
        }
    }

    /// The same source with renormalisation, which some sources always have.
    pub fn renormalised(self) -> Self {
        match self {
            Self::Ppi(_) => Self::Ppi("renorm"),
            Self::Collection(name, _) => Self::Collection(name, "renorm"),
            other => other,
        }
    }
}

fn splits() -> Vec<String> {
    let split = |percent| {
        [
            "--split".to_string(),
            format!("train{percent}:train=0.0{percent},val={VALIDATION},test={TEST}"),
        ]
    };
    SHARES.into_iter().flat_map(split).collect()
}

/// The edges of a folder, and its communities in the first of these files.
fn edges_and_communities(data: &Path, folder: &str, members: &[&str]) -> Option<[PathBuf; 2]> {
    let directory = data.join(folder);
    let edges = find(&directory, &[&format!("{folder}.ungraph.txt")])?;
    Some([edges, find(&directory, members)?])
}

/// A graph whose labels are communities.
fn with_communities(
    name: &str,
    [edges, members]: &[PathBuf; 2],
    choice: [&str; 2],
    note: Option<String>,
) -> Recipe {
    let mut command = words(&["ingest", "edges", &text(edges), "--communities", &text(members)]);
    command.extend(words(&choice));
    command.extend(splits());
    Recipe { name: name.into(), commands: vec![command], note }
}

/// com-Amazon with the labels of the paper.
fn amazon_of_the_paper(data: &Path) -> Option<Recipe> {
    let names = ["com-amazon.all.cmty.txt", "com-amazon.all.dedup.cmty.txt"];
    let files = edges_and_communities(data, "com-amazon", &names)?;
    let choice = ["--communities-larger-than", MEMBERS];
    Some(with_communities("com-amazon", &files, choice, None))
}

fn amazon(data: &Path) -> Option<Recipe> {
    amazon_of_the_paper(data).or_else(|| {
        let names = ["com-amazon.top5000.cmty.txt"];
        let files = edges_and_communities(data, "com-amazon", &names)?;
        let note = "com-amazon has no file of all its communities: its labels are the 58 largest \
                    of the 5,000 best ones, with few members each, so that its scores say little";
        let choice = ["--communities-top", LARGEST];
        Some(with_communities("com-amazon-top5000", &files, choice, Some(note.into())))
    })
}

fn communities(data: &Path, work: &Path, is_quick: bool) -> Recipe {
    if let Some(recipe) = amazon_of_the_paper(data) {
        return recipe;
    }
    let top = ["--communities-top", LARGEST];
    if let Some(files) = edges_and_communities(data, "com-dblp", &["com-dblp.all.cmty.txt"]) {
        let note = "com-amazon with all its communities is not in the data directory: com-dblp \
                    stands in for it, with its 58 largest communities as labels";
        return with_communities("com-dblp", &files, top, Some(note.into()));
    }
    let nodes = if is_quick { NODES.1 } else { NODES.0 };
    let raw = work.join("communities.raw");
    let note = format!(
        "neither com-amazon nor com-dblp with all communities is in the data directory: generated \
         communities of {nodes} nodes stand in, each node in one of {LARGEST}"
    );
    let files = [raw.join("edges.tsv"), communities_file(&raw)];
    let mut made = with_communities("communities", &files, top, Some(note));
    let raw = text(&raw);
    let sbm = [
        "generate",
        "sbm",
        "--nodes",
        &nodes.to_string(),
        "--blocks",
        LARGEST,
        "--features",
        "0",
        "--raw",
        &raw,
        "--force",
    ];
    made.commands.insert(0, words(&sbm));
    made
}

/// The communities of a generated graph; beside its files, which belong to `ignn generate`.
fn communities_file(raw: &Path) -> PathBuf {
    raw.with_extension("txt")
}

/// Writes communities, one per line, from the labels of a generated graph, as `ignn ingest edges
/// --communities` reads them.
pub fn communities_of_labels(raw: &Path) -> Result<()> {
    let (labels, members) = (raw.join("labels.csv"), communities_file(raw));
    let table = fs::read_to_string(&labels).with_context(|| text(&labels))?;
    let mut lines: std::collections::BTreeMap<&str, Vec<&str>> = std::collections::BTreeMap::new();
    for (node, label) in table.lines().skip(1).filter_map(|line| line.split_once(',')) {
        lines.entry(label).or_default().push(node);
    }
    let lines: Vec<String> = lines.into_values().map(|nodes| nodes.join("\t") + "\n").collect();
    Ok(storage::write_file(&members, lines.concat().as_bytes())?)
}

fn ppi(data: &Path, is_quick: bool, normalise: &str) -> Recipe {
    let folder = data.join("ppi");
    let raw = ["--normalise", normalise];
    let forms = ["train_graph.json", "ppi-G.json"].map(|name| folder.join(name).is_file());
    if forms.contains(&true) {
        let command = [words(&["ingest", "graphsage", &text(&folder)]), words(&raw)].concat();
        let note = "ppi-G.json does not tell its 24 graphs apart: every step sees all training \
                    nodes at once, so that an epoch is one step and not 20";
        let note = (!forms[0]).then(|| note.to_string());
        return Recipe { name: format!("ppi-{normalise}"), commands: vec![command], note };
    }
    let scale = if is_quick { QUICK_PPI } else { "1" };
    let command = [words(&["generate", "ppi", "--scale", scale]), words(&raw)].concat();
    let missing = match folder.is_dir() {
        true => "ppi has neither train_graph.json nor ppi-G.json",
        false => "ppi is not in the data directory",
    };
    let note = format!(
        "{missing}: a generated set of its shape stands in, so that published figures are no \
         measure of it"
    );
    Recipe { name: format!("ppi-generated-{normalise}"), commands: vec![command], note: Some(note) }
}

/// What the labels of published PPI files are: the released ones, or a reconstruction. Nothing in
/// the files says it, but the number of positives does.
fn labels_of_ppi(found: u64) -> String {
    let positives = quantity::count(found);
    let released = quantity::count(RELEASED_LABELS);
    match found {
        RELEASED_LABELS => format!("ppi has the released labels ({positives} positives)"),
        RECONSTRUCTED_LABELS => format!(
            "ppi has reconstructed labels ({positives} positives, the released ones {released}): \
             compare methods with each other, not with published figures"
        ),
        _ => format!(
            "ppi has labels of unknown origin ({positives} positives, the released ones \
             {released}): compare methods with each other, not with published figures"
        ),
    }
}

fn collection(data: &Path, name: &str, normalise: &str) -> Option<Recipe> {
    let recipe = |command: &[&str], note: Option<&str>| Recipe {
        name: format!("{}-{normalise}", name.to_lowercase()),
        commands: vec![[words(command), words(&["--normalise", normalise])].concat()],
        note: note.map(Into::into),
    };
    if name == "PTC" {
        let file = data.join("dgcnn/PTC.txt");
        if file.is_file() {
            return Some(recipe(&["ingest", "dgcnn", &text(&file)], None));
        }
    }
    let folder = data.join("tu").join(if name == "PTC" { "PTC_MR" } else { name });
    let note = "PTC is the version of the TU collection, not the one that the paper's table uses";
    folder
        .is_dir()
        .then(|| recipe(&["ingest", "tu", &text(&folder)], (name == "PTC").then_some(note)))
}

fn relations(data: &Path, work: &Path, name: &str) -> Result<Option<Recipe>> {
    let folder = data.join(name);
    let Some((_, spec)) =
        SPECS.iter().find(|(known, _)| *known == name).filter(|_| folder.is_dir())
    else {
        return Ok(None);
    };
    let file = work.join(format!("{name}.toml"));
    storage::create_directory(work)?;
    storage::write_file(&file, spec.as_bytes())?;
    let note = (name == "dblp-authors").then(|| {
        "the paper's DBLP (7,907 papers) is not to be had: authors of DBLP stand in, with \
         meta-paths as relations"
            .to_string()
    });
    let command = words(&["ingest", "relations", &text(&file), "--data", &text(&folder)]);
    Ok(Some(Recipe { name: name.into(), commands: vec![command], note }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(recipe: &Recipe) -> String {
        recipe.commands.last().unwrap().join(" ")
    }

    #[test]
    fn public_data_are_preferred_to_generated_ones() {
        let dir = tempfile::tempdir().unwrap();
        let (data, work) = (dir.path(), dir.path().join("work"));
        let recipe = |source: Source| source.recipe(data, &work, true, 0).unwrap();
        let generated = recipe(Source::Communities).unwrap();
        assert_eq!((generated.name.as_str(), generated.commands.len()), ("communities", 2));
        assert!(generated.note.unwrap().contains("generated communities of 4000 nodes stand in"));
        let ppi = || recipe(Source::Ppi("none")).unwrap().note.unwrap();
        assert!(ppi().starts_with("ppi is not in the data directory: a generated set"));
        fs::create_dir(data.join("ppi")).unwrap();
        assert!(ppi().starts_with("ppi has neither train_graph.json nor ppi-G.json: a generated"));
        assert_eq!(recipe(Source::Collection("MUTAG", "none")), None);
        assert_eq!(recipe(Source::Relations("acm")), None);
        for name in [
            "com-dblp/com-dblp.ungraph.txt.gz",
            "com-dblp/com-dblp.all.cmty.txt.gz",
            "ppi/ppi-G.json",
            "tu/PTC_MR/x",
            "acm/x",
        ] {
            let path = data.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let dblp = recipe(Source::Communities).unwrap();
        assert!(
            last(&dblp).contains("--communities-top 58")
                && dblp.note.unwrap().contains("com-dblp stands in for it")
        );
        let one_graph = recipe(Source::Ppi("none")).unwrap();
        assert!(one_graph.note.unwrap().starts_with("ppi-G.json does not tell its 24 graphs"));
        fs::write(data.join("ppi/train_graph.json"), "").unwrap();
        assert!(recipe(Source::Ppi("none")).unwrap().note.is_none());
        assert!(recipe(Source::Collection("PTC", "none")).unwrap().note.is_some());
        let renormalised = recipe(Source::Collection("PTC", "none").renormalised()).unwrap();
        assert!(
            last(&renormalised).ends_with(" --normalise renorm")
                && renormalised.name == "ptc-renorm"
        );
        assert!(last(&recipe(Source::Relations("acm")).unwrap()).contains("acm.toml --data"));
        let add = |name: &str| {
            let path = data.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        assert_eq!(recipe(Source::Amazon), None);
        add("com-amazon/com-amazon.ungraph.txt");
        add("com-amazon/com-amazon.top5000.cmty.txt.gz");
        let best = recipe(Source::Amazon).unwrap();
        assert!(
            last(&best).contains("--communities-top 58")
                && best.note.unwrap().contains("the 58 largest of the 5,000 best ones")
        );
        assert_eq!(recipe(Source::Communities).unwrap().name, "com-dblp", "for scores");
        add("com-amazon/com-amazon.all.dedup.cmty.txt.gz");
        add("dgcnn/PTC.txt");
        let amazon = recipe(Source::Communities).unwrap();
        assert!(last(&amazon).contains("--communities-larger-than 5000") && amazon.note.is_none());
        assert_eq!(recipe(Source::Amazon), Some(amazon.clone()), "the same dataset");
        assert!(last(&amazon).contains("--split train9:train=0.09,val=0.02,test=0.10"));
        assert_eq!(recipe(Source::Collection("PTC", "none")).unwrap().note, None);
    }

    #[test]
    fn the_number_of_positives_tells_which_labels_ppi_has() {
        assert_eq!(labels_of_ppi(2_102_769), "ppi has the released labels (2,102,769 positives)");
        let reconstructed = labels_of_ppi(2_112_430);
        assert!(
            reconstructed.starts_with(
                "ppi has reconstructed labels (2,112,430 positives, the released ones 2,102,769)"
            ),
            "{reconstructed}"
        );
        assert!(labels_of_ppi(5).starts_with("ppi has labels of unknown origin (5 positives"));
    }

    #[test]
    fn labels_become_communities() {
        let dir = tempfile::tempdir().unwrap();
        let raw = dir.path().join("communities.raw");
        fs::create_dir(&raw).unwrap();
        fs::write(raw.join("labels.csv"), "node,label\n0,b\n1,a\n2,b\n").unwrap();
        communities_of_labels(&raw).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("communities.txt")).unwrap(), "1\n0\t2\n");
    }
}
