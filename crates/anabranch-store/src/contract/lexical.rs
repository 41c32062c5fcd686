//! That a database reads statements by the rules that it says of itself.

use super::Harness;
use super::effects::OPEN;
use crate::database::Statement;
use crate::named_values::parse;
use std::time::Duration;

const IDLE: Duration = Duration::from_secs(30);

/// Texts that databases read differently, or that are easy to read wrongly, have as many values for the database as
/// for us; and those of a rule that it does not have are refused by it.
pub async fn statements_are_read_as_the_database_reads_them(harness: &Harness) {
    let log = harness.log().await;
    let database = log.store().database();
    let rules = database.dialect().lexical();
    let texts = [
        // Read alike by all.
        (true, "SELECT 'it''s :a', CAST(:b AS TEXT) AS \"x :c\" -- :d"),
        (true, "SELECT 1 WHERE 1=1 AND:a='x' OR'x'=:b"),
        (true, "SELECT '\\', CAST(:a AS TEXT), '\\'"),
        (true, "SELECT X'00', CAST(:a AS INTEGER)/* :b */+1"),
        (true, "SELECT 1 -- it's\n + CAST(:a AS INTEGER)"),
        // A comment in a comment.
        (true, "SELECT 1 /* /* */ + CAST(:a AS INTEGER) -- */"),
        // The end of a line.
        (true, "SELECT 1 -- x\r + CAST(:a AS INTEGER)"),
        // Quotes.
        (
            rules.escape_strings,
            r"SELECT E'\':a', E'x'
            '\':b', CAST(:v AS TEXT), E'\\'",
        ),
        (rules.dollar_quotes, "SELECT $$:a$$, $t$ :b $$ $t$, CAST(:v AS TEXT), 1 AS a$b$"),
        (rules.bracket_names, "SELECT 1 AS [x :a ' ;], CAST(:v AS TEXT)"),
        (rules.back_quotes, "SELECT 1 AS `x :a``:b`, CAST(:v AS TEXT)"),
        // Arrays and operators.
        (
            !rules.bracket_names,
            "SELECT a[lo:hi], a[lo : hi], a[1:2], a[:x], a[lo + :y], a[:p : :q], ARRAY[:z, :z] \
            FROM (SELECT ARRAY[1, 2] AS a, 1 AS lo, 2 AS hi) AS t",
        ),
        (!rules.marked_values, "SELECT CAST(:a AS jsonb) ? 'x', @ -1, make_interval(days := :b)"),
        (rules.colon_casts, "SELECT :c::text, 1::bigint"),
        // Bodies.
        (
            rules.trigger_bodies,
            "CREATE TRIGGER described_body AFTER INSERT ON body BEGIN \
            UPDATE body SET a = CASE WHEN a = 1 THEN 2 END; SELECT end FROM body; END",
        ),
        (
            rules.atomic_bodies,
            "CREATE FUNCTION described_body() RETURNS int LANGUAGE SQL BEGIN ATOMIC \
            SELECT CASE WHEN true THEN 1 END; SELECT 2 AS end; END",
        ),
    ];
    let mut session = database.begin();
    let create = Statement::new("CREATE TABLE body (a INTEGER, \"end\" INTEGER)", vec![]);
    session.run(vec![create], OPEN).await.unwrap();
    for (is_accepted, text) in texts {
        if !is_accepted {
            // It is the rule that is refused, not the name.
            let text = text.replace("CAST(:v AS TEXT)", "NULL");
            let described = session.describe(&text, IDLE).await;
            described.expect_err(&format!("{text}: the database has a rule that it does not say"));
            continue;
        }
        let named = parse(&format!("{text} ; "), rules).unwrap();
        let [statement] = named.statements.as_slice() else { panic!("{text}: {named:?}") };
        let described = session.describe(&statement.sql, IDLE).await;
        let described = described.unwrap_or_else(|failed| panic!("{text}: {failed}"));
        assert_eq!(described.values.len(), statement.values.len(), "{text}: {statement:?}");
    }
}
