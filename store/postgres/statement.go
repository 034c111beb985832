package postgres

import (
	"hash/fnv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A statement finds nothing by the search_path, where whoever may create in one of its schemas could put a function or
// an operator that fits better than the server's own, and runs with our rights:
//
//   - The tables are in SCHEMA.
//   - Functions, types, collations and the server's tables are in pg_catalog. Names that the grammar knows, such as
//     varchar, bigint, coalesce, greatest and AT TIME ZONE, mean what is in pg_catalog anyway, and so does unnest of
//     several lists, which cannot be qualified.
//   - An operator is written {=}. All that are written so have one precedence and associate to the left, comparisons as
//     well, so that a sum that is compared needs parentheses. What looks one up by its name cannot be used: BETWEEN,
//     IN, LIKE, NULLIF, USING and IS DISTINCT FROM. What sorts or groups, such as ORDER BY, DISTINCT and GROUP BY, uses
//     the type's own operators.
//
// Rejected: search_path as a parameter of the connection, which a pooler refuses and which the host's own statements in
// its pool would have as well; SET LOCAL, which costs a transaction and two round trips for each statement, and makes
// the server plan a prepared statement each time; functions in our schema, which each have a search_path, because many
// roles may not create any.
var operators = operatorReplacer("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "||", "->", "->>")

func operatorReplacer(names ...string) *strings.Replacer {
	var pairs []string
	for _, name := range names {
		pairs = append(pairs, "{"+name+"}", "OPERATOR(pg_catalog."+name+")")
	}
	return strings.NewReplacer(pairs...)
}

// qualify replaces SCHEMA in a statement by the quoted name of our schema, and {=} by the server's own operator.
func (s *Store) qualify(statement string) string {
	if known, ok := s.qualified.Load(statement); ok {
		return known.(string)
	}
	full := strings.ReplaceAll(operators.Replace(statement), "SCHEMA.", pgx.Identifier{s.schema}.Sanitize()+".")
	s.qualified.Store(statement, full)
	return full
}

// hash returns a number for a text, always the same one.
func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum64()
}
