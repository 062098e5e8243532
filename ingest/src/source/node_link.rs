//! Node-link JSON, as networkx writes it: `{"nodes": [{"id": 0}, ...], "links": [{"source": 0,
//! ...}]}`. Ids, links, and the fields `val` and `test` of nodes are kept; all other fields are
//! skipped.
//!
//! Links of old versions of networkx have the positions of nodes in the list, those of newer
//! versions have ids. If ids are `0, 1, ..., n - 1` in order, both are the same. Otherwise, if all
//! links have integers and the ids are text, links have positions; in all other cases they have
//! ids.

use std::collections::HashMap;
use std::fmt;
use std::io::BufReader;
use std::path::Path;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use crate::error::{IngestError, Result};
use crate::source::text::open_stream;

/// Bytes read from the file at once.
const BUFFER_BYTES: usize = 1 << 18;

/// A graph in memory.
#[derive(Debug, Deserialize)]
pub struct NodeLink {
    /// The nodes, in the order of the file.
    pub nodes: Vec<Node>,
    /// The links; networkx 3.4 and later may name them `edges`.
    #[serde(alias = "edges")]
    pub links: Links,
}

/// A node, with the marks of GraphSAGE.
#[derive(Debug, Deserialize)]
pub struct Node {
    /// Its id.
    pub id: Key,
    /// Whether it belongs to the validation part.
    pub val: Option<bool>,
    /// Whether it belongs to the test part.
    pub test: Option<bool>,
}

/// An id: integer or text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A JSON number.
    Integer(u64),
    /// A JSON string.
    Text(String),
}

/// All links, as pairs of integers or as pairs of strings.
#[derive(Debug, Default)]
pub struct Links {
    integers: Vec<[u64; 2]>,
    texts: Vec<[String; 2]>,
}

#[derive(Deserialize)]
struct Link {
    source: Key,
    target: Key,
}

/// Reads a file, plain or compressed.
pub fn read(path: &Path) -> Result<NodeLink> {
    read_json(path, "a graph in node-link JSON")
}

/// Reads a JSON file into `T`, without holding its text; `expected` is for the error message.
pub fn read_json<T: de::DeserializeOwned>(path: &Path, expected: &str) -> Result<T> {
    let (stream, _) = open_stream(path)?;
    serde_json::from_reader(BufReader::with_capacity(BUFFER_BYTES, stream)).map_err(|error| {
        if error.is_io() {
            return IngestError::io("read", path)(error.into());
        }
        let (line, text) = (error.line(), error.to_string());
        let place = format!(" at line {line} column {}", error.column());
        let found = match text.strip_suffix(&place) {
            Some(what) => format!("{what} at column {}", error.column()),
            None => text,
        };
        IngestError::line(path, line as u64, expected, found)
    })
}

impl NodeLink {
    /// The links as pairs of positions in the list of nodes.
    pub fn edges(&self, path: &Path) -> Result<Vec<[u32; 2]>> {
        let nodes = self.nodes.len();
        if u32::try_from(nodes).is_err() {
            return Err(IngestError::file(
                path,
                format!("{nodes} nodes (expected at most {})", u32::MAX),
            ));
        }
        let counting =
            self.nodes.iter().zip(0..).all(|(node, place)| node.id == Key::Integer(place));
        let named = self.nodes.iter().any(|node| matches!(node.id, Key::Text(_)));
        if counting || (named && self.links.texts.is_empty()) {
            let what = if counting { "a node id" } else { "a position in the list of nodes" };
            let end = |end: u64| {
                let unknown = || {
                    let found = format!("{what} from 0 to {}", nodes.saturating_sub(1));
                    IngestError::file(path, format!("a link to {end} (expected {found})"))
                };
                if end < nodes as u64 { Ok(end as u32) } else { Err(unknown()) }
            };
            if let Some([source, _]) = self.links.texts.first() {
                return Err(IngestError::file(
                    path,
                    format!("a link to {source:?} (expected an integer id)"),
                ));
            }
            return self.links.integers.iter().map(|&[u, v]| Ok([end(u)?, end(v)?])).collect();
        }
        let mut places = HashMap::with_capacity(nodes);
        for (place, node) in (0u32..).zip(&self.nodes) {
            if places.insert(&node.id, place).is_some() {
                return Err(IngestError::file(path, format!("the id {} is given twice", node.id)));
            }
        }
        let end = |key: Key| {
            let unknown =
                || IngestError::file(path, format!("a link to {key} (expected the id of a node)"));
            places.get(&key).copied().ok_or_else(unknown)
        };
        let integers = self.links.integers.iter().map(|pair| pair.map(Key::Integer));
        let texts = self.links.texts.iter().map(|pair| pair.clone().map(Key::Text));
        integers.chain(texts).map(|[u, v]| Ok([end(u)?, end(v)?])).collect()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Integer(id) => write!(formatter, "{id}"),
            Self::Text(id) => write!(formatter, "{id:?}"),
        }
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = Key;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("an id: a non-negative integer or a string")
            }

            fn visit_u64<E: de::Error>(self, id: u64) -> Result<Key, E> {
                Ok(Key::Integer(id))
            }

            fn visit_str<E: de::Error>(self, id: &str) -> Result<Key, E> {
                Ok(Key::Text(id.to_owned()))
            }
        }
        deserializer.deserialize_any(KeyVisitor)
    }
}

impl<'de> Deserialize<'de> for Links {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LinksVisitor;
        impl<'de> Visitor<'de> for LinksVisitor {
            type Value = Links;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("a list of links")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Links, A::Error> {
                let mut links = Links::default();
                while let Some(link) = list.next_element::<Link>()? {
                    match (link.source, link.target) {
                        (Key::Integer(u), Key::Integer(v)) => links.integers.push([u, v]),
                        (Key::Text(u), Key::Text(v)) => links.texts.push([u, v]),
                        _ => {
                            return Err(de::Error::custom(
                                "a link between an integer and a string id",
                            ));
                        }
                    }
                }
                Ok(links)
            }
        }
        deserializer.deserialize_seq(LinksVisitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edges(text: &[u8]) -> Result<Vec<[u32; 2]>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g.json");
        std::fs::write(&path, text).unwrap();
        read(&path)?.edges(&path)
    }

    fn message(text: &str) -> String {
        let error = edges(text.as_bytes()).unwrap_err().to_string();
        error[error.find("g.json").unwrap()..].to_owned()
    }

    #[test]
    fn ids_and_places_are_distinguished() {
        let counting = r#"{"directed": false, "nodes": [{"id": 0, "f": [1, {}]}, {"id": 1}],
            "links": [{"source": 0, "target": 1, "w": null}], "multigraph": false}"#;
        assert_eq!(edges(counting.as_bytes()).unwrap(), [[0, 1]]);
        let places =
            r#"{"links": [{"source": 1, "target": 0}], "nodes": [{"id": "b"}, {"id": "a"}]}"#;
        assert_eq!(edges(places.as_bytes()).unwrap(), [[1, 0]]);
        let names =
            r#"{"edges": [{"source": "a", "target": "b"}], "nodes": [{"id": "b"}, {"id": "a"}]}"#;
        assert_eq!(edges(names.as_bytes()).unwrap(), [[1, 0]]);
        let integers =
            r#"{"links": [{"source": 7, "target": 3}], "nodes": [{"id": 3}, {"id": 7}]}"#;
        assert_eq!(edges(integers.as_bytes()).unwrap(), [[1, 0]]);
    }

    #[test]
    fn malformed_graphs_are_reported() {
        let cases = [
            (
                "",
                "g.json:1: expected a graph in node-link JSON, found EOF while parsing a value at \
                 column 0",
            ),
            (
                "[1]",
                "g.json:1: expected a graph in node-link JSON, found invalid type: integer `1`, \
                 expected a sequence at column 3",
            ),
            (
                "{\"nodes\": []}",
                "g.json:1: expected a graph in node-link JSON, found missing field `links` at \
                 column 13",
            ),
            (
                "{\"nodes\": [{\"id\": 0}],\n\"links\": [{\"source\": 0}]}",
                "g.json:2: expected a graph in node-link JSON, found missing field `target` at \
                 column 23",
            ),
            (
                "{\"nodes\": [{\"id\": -1}], \"links\": []}",
                "g.json:1: expected a graph in node-link JSON, found invalid type: integer `-1`, \
                 expected an id: a non-negative integer or a string at column 21",
            ),
            (
                "{\"nodes\": [{\"id\": 0}], \"links\": [{\"source\": 0, \"target\": 1}]}",
                "g.json: a link to 1 (expected a node id from 0 to 0)",
            ),
            (
                "{\"nodes\": [{\"id\": \"a\"}], \"links\": [{\"source\": 0, \"target\": 1}]}",
                "g.json: a link to 1 (expected a position in the list of nodes from 0 to 0)",
            ),
            (
                "{\"nodes\": [{\"id\": 4}], \"links\": [{\"source\": 4, \"target\": 1}]}",
                "g.json: a link to 1 (expected the id of a node)",
            ),
            (
                "{\"nodes\": [{\"id\": \"a\"}], \"links\": [{\"source\": \"a\", \"target\": \
                 \"b\"}]}",
                "g.json: a link to \"b\" (expected the id of a node)",
            ),
            (
                "{\"nodes\": [{\"id\": 4}, {\"id\": 4}], \"links\": []}",
                "g.json: the id 4 is given twice",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(message(text), expected);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = edges(&bytes);
            let mut text = br#"{"nodes": [{"id": 1}], "links": [{"source": "#.to_vec();
            text.extend(bytes);
            let _ = edges(&text);
        }
    }
}
