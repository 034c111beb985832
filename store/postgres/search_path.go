package postgres

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// temporary begins the names of the schemas of temporary tables: pg_temp is that of the connection, and pg_temp_3 its
// or another's. A table there vanishes with its connection, and no other connection finds it.
const temporary = "pg_temp"

func isTemporary(schema string) bool {
	return schema == temporary || strings.HasPrefix(schema, temporary+"_")
}

// ensureSchema finds the schema of the tables, and creates the one that the host named.
func (t *transaction) ensureSchema() error {
	if t.store.schema == "" {
		return t.findSchema()
	}
	var exists bool
	err := t.values(`SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname {=} $1)`,
		[]any{t.store.schema}, &exists)
	if err != nil || exists {
		return err
	}
	if err := t.lock(); err != nil { // if two create one schema at once, one of them fails, even with IF NOT EXISTS
		return err
	}
	_, err = t.Exec(t.ctx, `CREATE SCHEMA IF NOT EXISTS `+pgx.Identifier{t.store.schema}.Sanitize())
	return err
}

// findSchema finds the schema of the tables, if the host named none.
func (t *transaction) findSchema() error {
	if t.store.schema != "" {
		return nil
	}
	if err := t.refuseTemporary(); err != nil {
		return err
	}
	err := t.values(`SELECT coalesce(pg_catalog.current_schema(), '')`, nil, &t.store.schema)
	if err == nil && t.store.schema == "" {
		err = errors.New("no schema of the connection's search_path exists: create one, or name one in Config.Schema")
	}
	return err
}

// refuseTemporary refuses a search_path whose first schema that exists is that of the temporary tables. It does not ask
// the server for the first schema, because the answer would create that of the temporary tables.
func (t *transaction) refuseTemporary() error {
	var path, role string
	err := t.values(`SELECT pg_catalog.current_setting('search_path'), current_user::{text}`, nil, &path, &role)
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
	err := t.values(`SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname {=} ANY ($1::pg_catalog.name[])
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
	for _, found := range regexp.MustCompile(`"((?:[^"]|"")*)"|[^\s,]+`).FindAllStringSubmatch(path, -1) {
		name := strings.ToLower(found[0])
		if name[0] == '"' {
			name = strings.ReplaceAll(found[1], `""`, `"`)
		}
		names = append(names, name)
	}
	return names
}
