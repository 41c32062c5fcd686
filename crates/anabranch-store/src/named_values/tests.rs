use super::*;
use proptest::prelude::*;

/// The rules of a server with arrays and dollar quotes.
const SERVER: Lexical = Lexical {
    return_ends_comment: true,
    back_quotes: false,
    trigger_bodies: false,
    ..Lexical::ANY
};

/// The rules of an embedded database with `[names]`.
const EMBEDDED: Lexical = Lexical {
    nested_comments: false,
    return_ends_comment: false,
    escape_strings: false,
    dollar_quotes: false,
    bracket_names: true,
    back_quotes: true,
    marked_values: true,
    colon_casts: false,
    trigger_bodies: true,
    atomic_bodies: false,
};

const ALL: [Lexical; 3] = [SERVER, EMBEDDED, Lexical::ANY];

/// The one statement of a text, with the names of its values.
fn one(text: &str, rules: Lexical) -> (String, Vec<String>) {
    let named = parse(text, rules).unwrap_or_else(|error| panic!("{text}: {error}"));
    let [statement] = named.statements.as_slice() else { panic!("{text}: {named:?}") };
    let name = |value: &NamedValue| format!("{value}{}", if value.optional { "?" } else { "" });
    (statement.sql.clone(), statement.values.iter().map(name).collect())
}

#[track_caller]
fn reads(rules: Lexical, text: &str, sql: &str, names: &[&str]) {
    let (found, values) = one(text, rules);
    assert_eq!(
        (found.as_str(), values.as_slice()),
        (sql, &names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()[..]),
        "{text}"
    );
}

/// A text in which no name is found.
#[track_caller]
fn has_none(rules: Lexical, text: &str) {
    reads(rules, text, text.trim(), &[]);
}

#[test]
fn names_lead_to_values() {
    for rules in ALL {
        reads(rules, "SELECT :a", "SELECT $1", &["a"]);
        reads(
            rules,
            "VALUES (:stream_id, :data.total, :data.note?, :data.items[0].sku[12]?)",
            "VALUES ($1, $2, $3, $4)",
            &["stream_id", "data.total", "data.note?", "data.items[0].sku[12]?"],
        );
        reads(rules, "SELECT :d.\"a \"\"b\"\".c\".x", "SELECT $1", &["d.\"a \"\"b\"\".c\".x"]);
        reads(rules, "SELECT :größe.名前", "SELECT $1", &["größe.名前"]);
        // Each occurrence is a value.
        reads(rules, "SELECT :a,:b,:a", "SELECT $1,$2,$3", &["a", "b", "a"]);
        reads(rules, "SELECT -:a+:b||:c;", "SELECT -$1+$2||$3", &["a", "b", "c"]);
        // Without a space beside it, a number would become part of a word or of another number.
        reads(rules, "WHERE a=1 AND:a?AND:b[0]5", "WHERE a=1 AND $1 AND $2 5", &["a?", "b[0]"]);
    }
    let value = parse("SELECT :a.b[3]?", SERVER).unwrap().statements.remove(0).values.remove(0);
    let key = |name: &str| Segment::Key(name.to_owned());
    assert_eq!(value.path, [key("a"), key("b"), Segment::Item(3)]);
    assert_eq!((value.span, value.optional), (7..15, true));
}

#[test]
fn quotes_and_comments_hold_none() {
    for rules in ALL {
        for text in [
            "SELECT ':a', 'it''s :b', \"x :c\", \"x\"\":d\"",
            "SELECT 1 -- :a ' ; \" $1 ?",
            "SELECT 1 -- :a\n + 2",
            "SELECT /* :a ; ' $1 */ 1",
            "SELECT X'00', x':a', N':a', B'01', '\\', 'a'",
            "SELECT U&':a\\0061', U&\":b\"",
            "SELECT 'a' ':b'",
            "/* -- */ SELECT 1 /**/ /***/",
        ] {
            has_none(rules, text);
        }
        reads(rules, "SELECT '' || :a, '''' || :b", "SELECT '' || $1, '''' || $2", &["a", "b"]);
        reads(rules, "SELECT 'x\\' || :a", "SELECT 'x\\' || $1", &["a"]);
        reads(rules, "-- it's\n:a", "-- it's\n$1", &["a"]);
        reads(rules, "/*/ :x */ :a", "/*/ :x */ $1", &["a"]);
    }
}

#[test]
fn a_server_has_its_own_quotes_and_operators() {
    for text in [
        r"SELECT E'it\'s :a', e'\\', E'\\'':b', E'''\':c'",
        "SELECT E'a'\n -- more\n '\\':a'",
        "SELECT $$:a ; ' $1$$, $t$ :b $$ $x$ $t$, $ünser_1$:c$ünser_1$",
        "SELECT a$b$:=1",
        "SELECT /* /* :a */ :b */ 1",
        "SELECT a[1:2], a[lo:hi], a[lo : hi], a[lo :hi], a[f(x):g(y)], a[b[1]:'2'], a[i::int:n]",
        "SELECT f(a := 1), x::text, doc ? 'a', doc ?| b, @x, a @> b, 1 @-1",
        "SELECT ARRAY[CASE WHEN a THEN 1 END:x]",
        "SELECT a:1",
    ] {
        has_none(SERVER, text);
    }
    reads(SERVER, r"SELECT E'\\', :a", r"SELECT E'\\', $1", &["a"]);
    // A name that ends with e.
    reads(SERVER, r"SELECT xe'\', :a", r"SELECT xe'\', $1", &["a"]);
    reads(SERVER, "SELECT E'a' '\\', :a", "SELECT E'a' '\\', $1", &["a"]);
    reads(SERVER, "-- x\r:a", "-- x\r$1", &["a"]);
    reads(SERVER, "SELECT $$x$$:a$$y$$", "SELECT $$x$$ $1 $$y$$", &["a"]);
    reads(SERVER, "SELECT f(a := :b)", "SELECT f(a := $1)", &["b"]);
    reads(
        SERVER,
        "SELECT :d.doc ? 'x', :d.doc? ? 'x'",
        "SELECT $1 ? 'x', $2 ? 'x'",
        &["d.doc", "d.doc?"],
    );
    reads(
        SERVER,
        "SELECT (:d.list)[1], (:a)[:b]",
        "SELECT ($1)[1], ($2)[$3]",
        &["d.list", "a", "b"],
    );
    for (text, sql, names) in [
        ("a[:data.i]", "a[$1]", ["data.i", ""]),
        ("ARRAY[:data.a, :data.b]", "ARRAY[$1, $2]", ["data.a", "data.b"]),
        ("a[:lo : :hi]", "a[$1 : $2]", ["lo", "hi"]),
        ("a[lo: :hi]", "a[lo: $1]", ["hi", ""]),
        ("a[x + :i]", "a[x + $1]", ["i", ""]),
        ("a[f(lo, :i)]", "a[f(lo, $1)]", ["i", ""]),
        ("a[(:i)]", "a[($1)]", ["i", ""]),
        ("a[CASE WHEN b THEN :i ELSE :j END]", "a[CASE WHEN b THEN $1 ELSE $2 END]", ["i", "j"]),
        ("ARRAY[x] || :a", "ARRAY[x] || $1", ["a", ""]),
        ("ARRAY[ARRAY[:a], ARRAY[:b]]", "ARRAY[ARRAY[$1], ARRAY[$2]]", ["a", "b"]),
    ] {
        let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        reads(SERVER, text, sql, &names);
    }
}

#[test]
fn an_embedded_database_has_its_own() {
    has_none(EMBEDDED, "SELECT [a :b ' ;], `c :d``:e` FROM t");
    reads(EMBEDDED, "SELECT /* /* :a */ :b", "SELECT /* /* :a */ $1", &["b"]);
    reads(EMBEDDED, "SELECT E'\\', :a", "SELECT E'\\', $1", &["a"]);
    reads(EMBEDDED, "-- x\r:a\n:b", "-- x\r:a\n$1", &["b"]);
}

#[test]
fn a_cast_with_colons_is_refused_where_it_is_none() {
    for rules in [SERVER, Lexical::ANY] {
        reads(rules, "SELECT :a::int8, x::text", "SELECT $1::int8, x::text", &["a"]);
    }
    for (text, at) in [("SELECT :a::int8", 9), ("SELECT ':a::b', x::text", 17)] {
        let error = parse(text, EMBEDDED).unwrap_err();
        assert_eq!(error.at, at, "{text}");
        assert!(error.said.contains("write CAST("), "{error}");
    }
}

#[test]
fn values_in_other_notations_are_refused() {
    let refused = |text: &str, rules| {
        let error = parse(text, rules).expect_err(text);
        assert!(error.said.contains("write :field"), "{error}");
        error.at
    };
    for rules in ALL {
        assert_eq!(refused("SELECT 'é', $1", rules), 13);
        assert_eq!(refused("SELECT :a, $12", rules), 11);
    }
    for text in ["SELECT ?", "SELECT ?1", "SELECT @x", "SELECT $x", "SELECT :1", "SELECT $$"] {
        assert_eq!(refused(text, EMBEDDED), 7, "{text}");
    }
}

#[test]
fn what_is_not_closed_or_not_finished_has_its_place() {
    let fails = |text: &str, rules, at: usize, said: &str| {
        let error = parse(text, rules).expect_err(text);
        assert!(error.at == at && error.said.contains(said), "{text}: {error:?}");
    };
    for rules in ALL {
        fails("SELECT 'é' || 'x; :a", rules, 15, "' is missing");
        fails("SELECT 1;\nSELECT \"x", rules, 17, "\" is missing");
        fails("SELECT 1 /* *", rules, 9, "*/ is missing");
        fails("SELECT :a.", rules, 9, "follow the dot");
        fails("SELECT :a.5", rules, 9, "follow the dot");
        fails("SELECT :a.\"b", rules, 9, "\" is missing");
        for text in ["SELECT :a[x]", "SELECT :a[1:2]", "SELECT :a[", "SELECT :a[]"] {
            fails(text, rules, 9, "(:field)[");
        }
        fails("SELECT :a[99999999999999999999]", rules, 9, "an item");
    }
    fails("SELECT $a$ $b$", SERVER, 7, "dollar quote");
    fails(r"SELECT E'\'", SERVER, 7, "' is missing");
    fails("SELECT /* /* */", SERVER, 7, "*/ is missing");
    fails("SELECT [a", EMBEDDED, 7, "] is missing");
    fails("SELECT `a", EMBEDDED, 7, "` is missing");
}

fn split(text: &str, rules: Lexical) -> Vec<&str> {
    let named = parse(text, rules).unwrap();
    named.statements.into_iter().map(|statement| &text[statement.span]).collect()
}

#[test]
fn statements_end_with_a_semicolon() {
    for rules in ALL {
        assert_eq!(split("", rules), [""; 0]);
        assert_eq!(split(" ;; -- a;\n/* b; */ ;", rules), [""; 0]);
        assert_eq!(split("A; -- x\n B ';' ;C", rules), ["A", "-- x\n B ';'", "C"]);
        // A rule has its statements in parentheses.
        assert_eq!(split("R DO (A; B); C", rules), ["R DO (A; B)", "C"]);
        assert_eq!(split("BEGIN; A; END; CASE; B", rules), ["BEGIN", "A", "END", "CASE", "B"]);
    }
    let text = "A :x :y; B :z";
    let named = parse(text, SERVER).unwrap();
    assert_eq!(named.statements[1].sql, "B $1");
    assert_eq!(named.values().map(ToString::to_string).collect::<Vec<_>>(), ["x", "y", "z"]);
}

#[test]
fn bodies_are_not_split() {
    let trigger = "CREATE TEMP TRIGGER IF NOT EXISTS x AFTER INSERT ON t BEGIN\n\
                   UPDATE t SET end = CASE WHEN new.a THEN :a ELSE 2 END; -- END;\n\
                   SELECT end FROM t; SELECT t.end FROM t;\nEND";
    for rules in [EMBEDDED, Lexical::ANY] {
        assert_eq!(split(&format!("A; {trigger}; B"), rules), ["A", trigger, "B"]);
    }
    for make in ["CREATE FUNCTION", "create or replace procedure"] {
        let function = format!(
            "{make} f(a int) LANGUAGE SQL BEGIN ATOMIC\n\
             SELECT CASE WHEN a = 1 THEN CASE a WHEN 2 THEN 'END;' END END; SELECT t.end AS end;\n\
             SELECT 1;\nEND"
        );
        for rules in [SERVER, Lexical::ANY] {
            assert_eq!(split(&format!("A; {function}; B"), rules), ["A", &function, "B"]);
        }
    }
    assert_eq!(split("CREATE TABLE begin (a int); B", SERVER).len(), 2);
    assert_eq!(split("CREATE TRIGGER x EXECUTE FUNCTION f(); B", SERVER).len(), 2);
    assert_eq!(split("SELECT begin atomic; B; END", SERVER).len(), 3);
}

#[test]
fn places_are_those_of_the_text() {
    let text = "  A 'é' ;\n B :größe? AND:x[0]5 ü -- end  ";
    let statement = &parse(text, SERVER).unwrap().statements[1];
    assert_eq!(statement.sql, "B $1 AND $2 5 ü -- end");
    let maps = |part: &str, to: &str| {
        let at = statement.source_offset(statement.sql.find(part).unwrap());
        assert!(text[at..].starts_with(to), "{part}: {at}");
    };
    for (part, to) in [
        ("B", "B"),
        ("$1", ":größe?"),
        ("1", ":größe?"),
        (" AND", " AND"),
        ("$2", ":x[0]"),
        ("5", "5"),
        ("ü", "ü"),
        ("end", "end"),
    ] {
        maps(part, to);
    }
    // Where something is missing, and beyond.
    for beyond in [0, 1, 100] {
        assert_eq!(statement.source_offset(statement.sql.len() + beyond), statement.span.end);
    }
}

/// Texts that are likely to confuse a reader.
fn texts() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        prop::sample::select(vec![
            "'",
            "''",
            "\"",
            "`",
            "[",
            "]",
            "(",
            ")",
            "$",
            "$$",
            "$a$",
            "$1",
            "--",
            "\n",
            "\r",
            "/*",
            "*/",
            ":",
            "::",
            ":=",
            ":a",
            ":a.b",
            ":a[0]",
            ":a.\"x\"",
            "?",
            "@",
            "\\",
            "E'",
            "e",
            "U&'",
            ";",
            "BEGIN",
            "ATOMIC",
            "END",
            "CASE",
            "CREATE ",
            "TRIGGER ",
            "FUNCTION ",
            " ",
            "1",
            "x",
            "é",
            "🦀",
            ".",
            ",",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,3}",
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

/// The text of statements, put together again from what they became.
fn restored(text: &str, statement: &NamedStatement) -> String {
    let (mut whole, mut done) = (String::new(), 0);
    for (value, written) in statement.values.iter().zip(&statement.written) {
        whole += &statement.sql[done..written.start];
        whole += &text[value.span.clone()];
        done = written.end;
    }
    whole + &statement.sql[done..]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn any_text_is_read_or_refused_at_a_place(text in texts()) {
        for rules in ALL {
            let Ok(named) = parse(&text, rules).map_err(|error| {
                assert!(text.is_char_boundary(error.at), "{text:?}: {error:?}");
            }) else { continue };
            let mut end = 0;
            for statement in &named.statements {
                prop_assert!(statement.span.start >= end && !statement.span.is_empty());
                end = statement.span.end;
                // Nothing but the names has changed.
                prop_assert_eq!(&restored(&text, statement), &text[statement.span.clone()]);
                if statement.values.is_empty() {
                    prop_assert_eq!(&statement.sql, &text[statement.span.clone()]);
                }
                // Every character outside of the values is found where it was.
                for (at, c) in statement.sql.char_indices() {
                    let source = statement.source_offset(at);
                    match statement.written.iter().position(|written| written.contains(&at)) {
                        Some(number) => {
                            prop_assert_eq!(source, statement.values[number].span.start);
                        }
                        None => prop_assert!(text[source..].starts_with(c)),
                    }
                }
                // What it became has the same values, by number, and no name is left.
                let pieces = crate::sql_lexer::Pieces::of(&statement.sql, rules);
                let numbers = pieces.flatten().filter(|piece| piece.kind == crate::sql_lexer::Kind::Value);
                prop_assert_eq!(numbers.count(), statement.values.len());
            }
        }
    }

    #[test]
    fn a_name_is_found_again_by_how_it_is_shown(
        keys in prop::collection::vec(prop_oneof!["[a-zé_][a-z0-9_]{0,5}", "\\PC{0,6}"], 0..4),
        items in prop::collection::vec(0_usize..1000, 0..4),
    ) {
        let key = |key: &String| Segment::Key(key.clone());
        let mut path = vec![Segment::Key("data".to_owned())];
        path.extend(keys.iter().map(key));
        path.extend(items.iter().copied().map(Segment::Item));
        let value = NamedValue { span: 0..0, path, optional: false };
        let named = parse(&format!(":{value}"), SERVER).unwrap();
        prop_assert_eq!(&named.statements[0].values[0].path, &value.path);
    }
}
