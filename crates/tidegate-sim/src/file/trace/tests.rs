use super::*;

fn dimensions() -> Vec<Dimension> {
    ["requests", "tokens", "usd"].map(Dimension::from_name).into()
}

fn read(text: &str) -> Vec<TracedCall> {
    parse(text, &dimensions()).expect("valid")
}

fn wrong(text: &str) -> Vec<(usize, String)> {
    match parse(text, &dimensions()) {
        Err(TraceError::Wrong(lines)) => lines,
        other => panic!("{other:?}"),
    }
}

fn times(calls: &[TracedCall]) -> Vec<u128> {
    calls.iter().map(|call| call.at.as_millis()).collect()
}

#[test]
fn csv_gives_what_its_header_names_and_leaves_empty_cells_to_the_workload() {
    let calls = read(
        "at,loop,priority,model,tokens,usd,runs\n1.5,\"a, \"\"b\"\"\",high,gpt-4o,1.2k,0.25,800ms\n\n# done\n3,,,,,,\n",
    );
    assert_eq!(calls[0].loop_id.as_deref(), Some("a, \"b\""));
    assert_eq!(calls[0].priority, Some(Priority::High));
    assert_eq!(calls[0].cost, [(Dimension::Tokens, 1_200), (Dimension::MicroUsd, 250_000)]);
    assert_eq!(calls[0].runs, Some(Duration::from_millis(800)));
    assert_eq!(calls[1], TracedCall { at: Duration::from_millis(1_500), ..TracedCall::default() });
}

#[test]
fn json_lines_say_the_same() {
    let calls = read("{\"at\": 2, \"tokens\": 7}\n{\"at\": 2.25, \"loop\": \"a\", \"priority\": null}\n");
    assert_eq!(
        (calls[0].cost.as_slice(), times(&calls)),
        ([(Dimension::Tokens, 7)].as_slice(), vec![0, 250])
    );
    assert_eq!((calls[1].loop_id.as_deref(), calls[1].priority), (Some("a"), None));
}

#[test]
fn times_of_every_kind_count_from_the_earliest() {
    assert_eq!(times(&read("at\n250ms\n1m\n1s\n")), [0, 750, 59_750]);
    let wall = "at\n2026-03-01T10:00:00.5Z\n2026-03-01T11:00:01+01:00\n";
    assert_eq!(times(&read(wall)), [0, 500]);
    assert_eq!(
        times(&read("at\n1767225600.000000001\n1767225601.1\n")),
        [0, 1_099],
        "exact, and not a float"
    );
}

#[test]
fn mistakes_are_told_by_their_line() {
    assert_eq!(wrong("at,tokens\n1,5\nsoon,5\n2,-1\n3\n4,\"5\n"), [
        (3, "`soon` is not a duration (write whole numbers with units, such as `250ms`, `30s` or `1m30s`)".into()),
        (4, "`-1` is negative".into()),
        (5, "1 cells where the header has 2".into()),
        (6, "a quote is not closed on its line".into()),
    ]);
    assert_eq!(wrong("at\n1s\n2026-03-01T10:00:00Z\n")[0].0, 3, "kinds of times do not mix");
    assert_eq!(wrong("time\n1\n")[0].0, 1);
    assert_eq!(
        wrong("{\"at\": 1}\n[]\n{\n"),
        [(2, "this is not an object".into()), (3, "not valid JSON at column 1".into()),]
    );
    assert_eq!(wrong("{\"loop\": \"a\"}\n")[0].1, "it does not say when: `at` is missing");
    assert_eq!(wrong("at\n")[0].1, "there are no calls in it");
    assert!(wrong("at,wait\n1,2\n")[0].1.starts_with("unknown column `wait`"));
}
