package postgres

import (
	"fmt"
	"strings"
	"unicode"
)

// temporary begins the names of the schemas of temporary tables: pg_temp is that of the connection, and pg_temp_3 its
// or another's. A table there vanishes with its connection, and no other connection finds it.
const temporary = "pg_temp"

func isTemporary(schema string) bool {
	return schema == temporary || strings.HasPrefix(schema, temporary+"_")
}

// refuseTemporary refuses a search_path whose first schema that exists is that of the temporary tables. It does not ask
// the server for the first schema, because the answer would create that of the temporary tables.
func (t *transaction) refuseTemporary() error {
	var path, role string
	err := t.values(`SELECT pg_catalog.current_setting('search_path'), current_user::pg_catalog.text`, nil, &path, &role)
	if err != nil {
		return err
	}
	var before []string
	for _, schema := range schemasOf(path) {
		switch {
		case isTemporary(schema):
			return t.refuseUnlessLater(path, before)
		case schema == "$user":
			schema = role
		}
		before = append(before, schema)
	}
	return nil
}

// refuseUnlessLater refuses a search_path if none of the schemas before that of the temporary tables can be used.
func (t *transaction) refuseUnlessLater(path string, before []string) error {
	var usable bool
	err := t.values(`
		SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname {=} ANY ($1::pg_catalog.name[])
			AND pg_catalog.has_schema_privilege(oid, 'USAGE'))`, []any{before}, &usable)
	if err == nil && !usable {
		err = fmt.Errorf("the search_path %s begins with %s, whose tables vanish with their connection: "+
			"name another schema first, or one in Config.Schema", path, temporary)
	}
	return err
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
