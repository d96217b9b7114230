//! The engine's errors in the words of the original's interpreter.
//!
//! Syntax and name errors carry a position, the others do not: that is what the original shows.

use starlark::{Error, ErrorKind};

use super::dialect::Rewritten;

pub(super) fn of(error: &Error, name: &str, source: &str, rewritten: &Rewritten) -> String {
    let text = format!("{}", error.without_diagnostic());
    let span = error.span().map(|span| (span.resolve_span(), span.source_span().to_owned()));
    let at = |message: String, line: usize, column: usize| {
        format!("{name}:{}:{}: {message}", rewritten.line(line) + 1, column + 1)
    };
    let begin = span.as_ref().map(|(span, _)| (span.begin.line, span.begin.column));
    let is_syntax = text.starts_with("Parse error:")
        || (matches!(error.kind(), ErrorKind::Parser(_)) && !text.starts_with("Cannot parse `"));
    match (error.kind(), &span) {
        (ErrorKind::Fail(cause), _) => format!("fail: {}", cause.to_string().trim_start()),
        (ErrorKind::StackOverflow(_), _) => "Starlark program called itself too deeply".to_owned(),
        (_, Some((span, _))) if is_syntax => {
            let at_end =
                rewritten.line(span.begin.line) + 1 >= source.lines().count() && !source.ends_with('\n');
            let message = syntax(&text, at_end);
            // A missing expression is missed where something else begins, all else behind what is there.
            let after = message.starts_with("got ") && !message.ends_with("want primary expression");
            let (line, column) =
                if after && !message.contains("newline,") && !message.contains("end of file,") {
                    (span.end.line, span.end.column)
                } else {
                    (span.begin.line, span.begin.column)
                };
            at(message, line, column)
        }
        (ErrorKind::Scope(_), _) => match begin {
            Some((line, column)) => at(scope(&text), line, column),
            None => scope(&text),
        },
        _ if text.starts_with("Variable `") => match begin {
            Some((line, column)) => at(scope(&text), line, column),
            None => scope(&text),
        },
        (_, span) => runtime(&text, span.as_ref().map_or("", |(_, source)| source), source),
    }
}

fn scope(text: &str) -> String {
    match between(text, "Variable `", "` not found") {
        Some(variable) => format!("undefined: {variable}"),
        None => lower(text),
    }
}

/// The parser says what it saw and what it expected; the original has other words for both.
fn syntax(text: &str, at_end: bool) -> String {
    let text = text.strip_prefix("Parse error: ").unwrap_or(text);
    if text.contains("incorrect indentation") {
        return "unindent does not match any outer indentation level".to_owned();
    }
    if text.contains("unfinished string literal") {
        return if at_end { "unexpected EOF in string" } else { "unexpected newline in string" }.to_owned();
    }
    if text.contains("cannot use reserved keyword") {
        return "got illegal token, want primary expression".to_owned();
    }
    let token = |name: &str| {
        let token = token(name);
        if at_end && token == "newline" { "end of file".to_owned() } else { token }
    };
    let parts = text.strip_prefix("unexpected ").and_then(|rest| rest.rsplit_once(", expected "));
    match parts {
        Some((_, "expression")) if text.starts_with("unexpected reserved keyword") => {
            "got illegal token, want primary expression".to_owned()
        }
        Some((found, "expression")) => format!("got {}, want primary expression", token(found)),
        Some((found, wanted)) => format!("got {}, want {}", token(found), self::token(wanted)),
        None => match text {
            "`return` cannot be used outside of a `def` function" => {
                "return statement not within a function".to_owned()
            }
            "`break` cannot be used outside of a `for` loop" => "break not in a loop".to_owned(),
            "`continue` cannot be used outside of a `for` loop" => "continue not in a loop".to_owned(),
            _ => lower(text),
        },
    }
}

/// The engine's name of a token in the original's words.
fn token(name: &str) -> String {
    match name {
        "new line" => "newline".to_owned(),
        "new indentation block" => "indent".to_owned(),
        "end of indentation block" => "outdent".to_owned(),
        "reserved keyword" => "illegal token".to_owned(),
        _ => match name.split_once(' ') {
            Some(("symbol", symbol)) => symbol.to_owned(),
            Some(("keyword", word)) => word.trim_matches('\'').to_owned(),
            Some(("identifier", _)) => "identifier".to_owned(),
            Some(("string", _)) => "string literal".to_owned(),
            Some(("float", _)) => "float literal".to_owned(),
            Some((_, rest)) if rest.starts_with("literal") => "int literal".to_owned(),
            _ if name.contains("integer literal") => "int literal".to_owned(),
            _ => name.to_owned(),
        },
    }
}

/// What goes wrong while a program runs. `expression` is where, `source` is all of it.
fn runtime(text: &str, expression: &str, source: &str) -> String {
    if let Some(key) = between(text, "Key `", "` was not found") {
        return if expression.contains(".format(") {
            format!("format: keyword {key} not found")
        } else {
            format!("key {key} not in dict")
        };
    }
    if let Some(rest) = text.strip_prefix("Operation `") {
        return operation(rest).unwrap_or_else(|| lower(text));
    }
    if let Some((kind, name)) =
        between(text, "Object of type `", "`").zip(between(text, "has no attribute `", "`"))
    {
        return match kind {
            "struct" => format!("struct has no .{name} attribute"),
            "namespace" => format!("module has no .{name} field or method"),
            _ => format!("{kind} has no .{name} field or method"),
        };
    }
    if let Some(kind) = between(text, "Value of type `", "` is not hashable") {
        return format!("unhashable type: {kind}");
    }
    if let Some(name) = between(text, "Module has no symbol `", "`") {
        return format!("load: name {name} not found in module {}", module_of(name, source));
    }
    if let Some((found, wanted)) =
        between(text, "Unpacked ", " values").zip(text.rsplit_once(' ').map(|last| last.1))
    {
        let word = if number(found) < number(wanted) { "few" } else { "many" };
        return format!("too {word} values to unpack (got {found}, want {wanted})");
    }
    if let Some(name) = between(text, "Local variable `", "` referenced before assignment") {
        return format!("local variable {name} referenced before assignment");
    }
    if let Some((name, function)) =
        between(text, "Missing parameter `", "`").zip(between(text, "for call to `", "`"))
    {
        let function = function.rsplit('.').next().unwrap_or_default();
        return format!("function {function} missing 1 argument ({name})");
    }
    if let Some((digits, base)) =
        between(text, "Cannot parse `", "`").zip(text.rsplit_once("base ").map(|last| last.1))
    {
        return format!("int: invalid literal with base {base}: {digits}");
    }
    by_words(text, expression).unwrap_or_else(|| lower(text))
}

/// Messages that carry nothing over.
fn by_words(text: &str, expression: &str) -> Option<String> {
    let words = if text.starts_with("Floor division by zero") || text == "Cannot divide by zero" {
        "floored division by zero"
    } else if text.starts_with("Modulo by zero") {
        "integer modulo by zero"
    } else if text.to_lowercase().starts_with("float division by zero") {
        "floating-point division by zero"
    } else if text.contains("not found in dictionary") {
        "pop: missing key"
    } else if text.contains("' not found in list '") {
        "remove: element not found"
    } else if text.starts_with("Element '") && text.contains("' not found in '") {
        "index: value not in list"
    } else if text.contains("(step) cannot be zero") {
        "range: step argument must not be zero"
    } else if text.starts_with("Not enough parameters in format string") {
        "format: tuple index out of range"
    } else if text.contains("max() expect a non empty iterable") {
        "max: argument is an empty sequence"
    } else if text.contains("min() expect a non empty iterable") {
        "min: argument is an empty sequence"
    } else if text.starts_with("This operation mutates an iterable") {
        if expression.contains("append(") {
            "append: cannot append to list during iteration"
        } else {
            "cannot insert into hash table during iteration"
        }
    } else {
        return None;
    };
    Some(words.to_owned())
}

/// The module that a program loads a name from.
fn module_of<'a>(name: &str, source: &'a str) -> &'a str {
    let loads = source
        .split("load(")
        .skip(1)
        .filter(|rest| rest.split(')').next().unwrap_or_default().contains(name));
    let module = loads.last().and_then(|rest| rest.split(['"', '\'']).nth(1));
    module.unwrap_or_default()
}

fn operation(rest: &str) -> Option<String> {
    let (operator, rest) = rest.split_once('`')?;
    if let Some((left, right)) = between(rest, "types `", "`").zip(between(rest, "and `", "`")) {
        return Some(match operator {
            "compare" | "cmp()" => format!("{left} < {right} not implemented"),
            "[]" => format!("unhandled index operation {left}[{right}]"),
            _ => format!("unknown binary op: {left} {operator} {right}"),
        });
    }
    let kind = between(rest, "type `", "`")?;
    Some(match operator {
        "(iter)" => format!("{kind} value is not iterable"),
        "len()" | "len" => format!("len: value of type {kind} has no len"),
        "call()" => format!("invalid call of non-function ({kind})"),
        "[]" => format!("unhandled index operation {kind}[...]"),
        "format(%d)" => format!("%d format requires integer: cannot convert {kind} to int"),
        _ => match operator.strip_prefix('.') {
            Some(field) => match field.strip_suffix('=') {
                Some(field) => format!("can't assign to .{field} field of {kind}"),
                None => format!("{kind} has no .{field} field or method"),
            },
            None => format!("unknown unary op: {operator} {kind}"),
        },
    })
}

fn number(text: &str) -> i64 {
    text.parse().unwrap_or_default()
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(inside, _)| inside)
}

/// The original's messages begin in lower case.
fn lower(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}
