package sqlite

import "slices"

// insertRows inserts the events of a JSON array of rows in their order, unless their IDs are taken. Rejected: VALUES
// with a parameter for each column, which costs the driver two objects each, and a statement for each number of rows.
const insertRows = `
	INSERT INTO main.events (id, aggregate_type, aggregate_id, event_type, payload, timestamp, consensus_id)
	SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
		json_extract(value, '$[3]'), json_extract(value, '$[4]'), json_extract(value, '$[5]'),
		nullif(json_extract(value, '$[6]'), '')
	FROM json_each(?1) WHERE true ON CONFLICT (id) DO NOTHING`

// A statement inserts at most so many rows, and no more once their payloads have so many bytes.
const (
	mostRows  = 1024
	mostBytes = 1 << 20
)

// insertEvents inserts the events whose IDs are not taken, with as few statements as it can, and returns how many it
// inserted. An end event is also put into the outbox, if there is one.
func (t *transaction) insertEvents(rows []row) (inserted int64, err error) {
	for len(rows) > 0 {
		n := rowsOfStatement(rows)
		some, err := t.insertSome(rows[:n])
		if err != nil {
			return 0, err
		}
		inserted, rows = inserted+some, rows[n:]
	}
	return inserted, nil
}

// rowsOfStatement returns how many of the rows the next statement inserts.
func rowsOfStatement(rows []row) (n int) {
	for bytes := 0; n < min(len(rows), mostRows) && bytes < mostBytes; n++ {
		bytes += len(rows[n][4])
	}
	return n
}

func (t *transaction) insertSome(rows []row) (inserted int64, err error) {
	if t.store.outbox && slices.ContainsFunc(rows, row.isEnd) {
		return t.insertTold(rows)
	}
	return t.change(insertRows, jsonArray(rows))
}
