package storeflow

import "strings"

// A Leftover is what a version before kept for somebody, in tables that this one neither reads nor drops.
type Leftover struct {
	Says string // what there is, and that nothing reads it any more
	Read string // the statement that reads it
	Drop string // those that drop its tables
}

// leftovers are the tables to look for, with the condition of the rows that somebody may miss, empty for all, what
// these are, and the tables that go with them.
var leftovers = []struct {
	table, where, says string
	others             []string
}{}

// Leftovers returns what a version before left in the database, without what cannot be read.
func (s *Schema) Leftovers(d Database) (found []Leftover) {
	for _, of := range leftovers {
		rows := "FROM " + s.Prefix + of.table
		if of.where != "" {
			rows += " WHERE " + of.where
		}
		some := false
		if names, err := d.Names(of.table); err != nil || len(names) == 0 {
			continue
		}
		if err := d.Value("SELECT EXISTS (SELECT 1 "+rows+")", nil, &some); err == nil && some {
			drop := "DROP TABLE " + s.Prefix + strings.Join(append(of.others, of.table), "; DROP TABLE "+s.Prefix)
			found = append(found, Leftover{of.says, "SELECT * " + rows, drop})
		}
	}
	return found
}
