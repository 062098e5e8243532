//! Node tables: columns that are not there, or not what they should be.

use std::sync::Arc;

use arrow_array::{Date32Array, Int64Array};

use super::{Case, case, check_all};
use crate::raw::{column, parquet};

/// Edges of a path 0 - 1 - 2, and a node table.
fn table(name: &'static str, options: &str, message: &'static str) -> Case {
    case(name, format!("ingest edges e.csv {options} --out d"), message)
        .file("e.csv", "0,1\n1,2\n")
        .file("n.csv", "id,team,age,joined\n0,red,31,2021-03-04\n1,blue,x,2021-03-05\n2,red,44,\n")
}

#[test]
fn messages_about_tables() {
    let dates: Vec<u8> = parquet(vec![
        ("id", column::<Int64Array>(vec![0, 1, 2])),
        ("day", Arc::new(Date32Array::from(vec![1, 2, 3]))),
    ]);
    let no_ids: Vec<u8> = parquet(vec![("key", column::<Int64Array>(vec![0, 1, 2]))]);
    check_all(&[
        table(
            "a label that is not there",
            "--nodes n.csv --label taem",
            "n.csv: no column \"taem\" (found: \"id, team, age, joined\", did you mean \"team\"?)",
        ),
        table(
            "a feature that is like nothing",
            "--nodes n.csv --features salary",
            "n.csv: no column \"salary\" (found: \"id, team, age, joined\")",
        ),
        table(
            "a split that is not there",
            "--nodes n.csv --split-column parts",
            "n.csv: no column \"parts\" (found: \"id, team, age, joined\")",
        ),
        table(
            "ids that are not there",
            "--nodes n.csv --id-column ID",
            "n.csv: no column \"ID\" (found: \"id, team, age, joined\", did you mean \"id\"?)",
        ),
        table(
            "the label among the features",
            "--nodes n.csv --label team --features team,age",
            "n.csv: column \"team\" is what is predicted, or a split (expected features without \
             it): leave it out of --features",
        ),
        table(
            "the ids as a label",
            "--nodes n.csv --label id",
            "n.csv: column \"id\" is the column of ids (expected another): name the ids with \
             --id-column",
        ),
        table(
            "a word among numbers",
            "--nodes n.csv --features age",
            "n.csv:3: expected a number in column \"age\", as in most rows (--categories age reads \
             the column as words), found \"x\"",
        ),
        table(
            "a word to be regressed",
            "--nodes n.csv --regress age",
            "n.csv:3: expected a finite number in column \"age\", found \"x\"",
        ),
        table(
            "dates",
            "--nodes n.csv --features joined",
            "n.csv: column \"joined\" holds dates, such as \"2021-03-04\" (expected numbers or \
             words): write a number instead, such as the days since a fixed day, the year or the \
             day of the week, or leave the column out of --features",
        ),
        table(
            "missing values that are refused",
            "--nodes n.csv --features joined --categories joined --missing refuse",
            "n.csv:4: expected a value in column \"joined\" (--missing mean fills in the mean), \
             found an empty cell",
        ),
        table(
            "dates in Parquet",
            "--nodes n.parquet --features day",
            "n.parquet: column \"day\" holds dates, such as Date32 (expected numbers or words): \
             write a number instead, such as the days since a fixed day, the year or the day of \
             the week, or leave the column out of --features",
        )
        .file("n.parquet", dates),
        table(
            "a feature twice",
            "--nodes n.csv --features team,age,team",
            "n.csv: column \"team\" is given twice (expected features once): leave it out of \
             --features",
        ),
        table(
            "the ids as a feature",
            "--nodes n.csv --features age,id",
            "n.csv: column \"id\" is the column of ids (expected features once): leave it out of \
             --features",
        ),
        table(
            "a label that is missing everywhere",
            "--nodes na.csv --label team",
            "na.csv: no labels: column \"team\" is empty",
        )
        .file("na.csv", "id,team\n0,NA\n1,\n2,nan\n"),
        table(
            "Parquet without ids",
            "--nodes n.parquet --features key",
            "n.parquet: no column named \"node\", \"id\" or \"node_id\" (found: \"key\")",
        )
        .file("n.parquet", no_ids),
        table(
            "two labels",
            "--nodes n.csv --label team --regress age",
            "--label and --regress cannot be used together",
        ),
        table(
            "a target that is a column of the nodes",
            "--nodes n.csv --target age",
            "e.csv: no column \"age\" for the target (found columns: source, target); --target is \
             an end of edges: to predict the numbers of column \"age\" of n.csv, pass --regress age",
        )
        .file("e.csv", "source,target\n0,1\n1,2\n"),
        table("no table", "--label team", "--label needs a node table: pass --nodes TABLE"),
        table("no table", "--words hashed", "--words needs a node table: pass --nodes TABLE"),
        table(
            "numbers of nothing",
            "--regress age",
            "--regress names a column of --nodes TABLE or --labels FILE: give one",
        ),
        table(
            "a node that is not in the table",
            "--nodes few.csv",
            "e.csv:2: expected a node of few.csv, found \"2\"",
        )
        .file("few.csv", "id,x\n0,1\n1,2\n"),
        table(
            "a node that is twice in the table",
            "--nodes twice.csv",
            "twice.csv:4: expected each node once, found \"0\" again",
        )
        .file("twice.csv", "id,x\n0,1\n1,2\n0,3\n"),
        table(
            "a column without values for training",
            "--nodes half.csv --features x --split-column part",
            "half.csv: column \"x\" has no value at any training node: leave the column out of \
             --features",
        )
        .file("half.csv", "id,x,part\n0,,train\n1,,train\n2,5,test\n"),
    ]);
}
