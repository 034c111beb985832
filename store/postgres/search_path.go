package postgres

import (
	"strings"
	"unicode"
)

// temporary begins the names of the schemas of temporary tables: pg_temp is that of the connection, and pg_temp_3 its
// or another's. A table there vanishes with its connection, and no other connection finds it.
const temporary = "pg_temp"

func isTemporary(schema string) bool {
	return schema == temporary || strings.HasPrefix(schema, temporary+"_")
}

// schemasOf returns the names in a search_path as the server reads them: without quotes, and in small letters where
// there were none.
func schemasOf(path string) (names []string) {
	for path = strings.TrimSpace(path); path != ""; path = strings.TrimSpace(path) {
		var name string
		if quoted, isQuoted := strings.CutPrefix(path, `"`); isQuoted {
			name, path = cutQuoted(quoted)
		} else {
			end := strings.IndexFunc(path, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
			if end < 0 {
				end = len(path)
			}
			name, path = strings.ToLower(path[:end]), path[end:]
		}
		names = append(names, name)
		path = strings.TrimPrefix(strings.TrimSpace(path), ",")
	}
	return names
}

// cutQuoted returns what is before the closing quote, and what is after it. Two quotes are one of the name.
func cutQuoted(text string) (name, rest string) {
	for {
		part, after, _ := strings.Cut(text, `"`)
		name += part
		next, isDoubled := strings.CutPrefix(after, `"`)
		if !isDoubled {
			return name, after
		}
		name, text = name+`"`, next
	}
}
