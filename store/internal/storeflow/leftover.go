package storeflow

import "strings"

// A Leftover is what a version before kept for somebody, in tables that this one neither reads nor drops.
type Leftover struct {
	Rows string // what they are
	Read string // the statement that reads them
	Drop string // those that drop their tables
}

// leftovers are the tables to look for, with the condition of the rows that somebody may miss, empty for all, what
// these are, and the tables to drop first.
var leftovers = []struct {
	table, where, rows string
	others             []string
}{
	{table: "watchdog_outbox", rows: "notices of ends that no webhook took"},
	{
		table: "watchdog_spend", rows: "what limits are charged with that runs shared or kept here",
		where: "(input_tokens > 0 OR output_tokens > 0 OR tokens > 0 OR cost > 0 OR requests > 0 OR turns > 0 OR " +
			"tool_calls > 0) AND (ends_at IS NULL OR ends_at > CURRENT_TIMESTAMP)",
		others: []string{"watchdog_slices"},
	},
}

// Leftovers returns what a version before left in the database, without what cannot be read.
func (s *Schema) Leftovers(d Database) (found []Leftover) {
	for _, of := range leftovers {
		from := "FROM " + s.Prefix + of.table
		if of.where != "" {
			from += " WHERE " + of.where
		}
		some := false
		if names, err := d.Names(of.table); err != nil || len(names) == 0 {
			continue
		}
		if err := d.Value("SELECT EXISTS (SELECT 1 "+from+")", nil, &some); err == nil && some {
			drop := "DROP TABLE " + s.Prefix + strings.Join(append(of.others, of.table), "; DROP TABLE "+s.Prefix)
			found = append(found, Leftover{of.rows, "SELECT * " + from, drop})
		}
	}
	return found
}
