package postgres

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog"
)

// The expressions of the index of layers. A query must repeat them word for word to use it.
//
// The server fails to read a payload with an escape such as \u0000, and an index on what it reads would refuse the
// event. So all payloads with \u have one key, and Layers decodes them. The key is cut, because an index entry has a
// limit.
const (
	namesParent = `aggregate_type {=} '` + watchdog.AggregateType + `' AND ` +
		`pg_catalog.strpos(payload::pg_catalog.text, '"parent"') {>} 0`
	escaped   = `E'\\u'`
	parentKey = `CASE WHEN pg_catalog.strpos(payload::pg_catalog.text, ` + escaped + `) {>} 0 THEN ` + escaped + `
		ELSE pg_catalog.left(payload {->>} 'parent', 255) END`
)

const createParentIndex = `CREATE INDEX IF NOT EXISTS watchdog_events_parent
		ON SCHEMA.events ((` + parentKey + `)) WHERE ` + namesParent

const selectLayers = `
	SELECT aggregate_id, payload::pg_catalog.text FROM SCHEMA.events
	WHERE ` + namesParent + ` AND ` + parentKey + ` {=} ANY (ARRAY[
		pg_catalog.left($1::pg_catalog.text, 255), ` + escaped + `])`

// Layers implements [watchdog.FeedStore], in one round trip. It reads the events that name the parent, and all events
// that name any parent and have \u in their payload. An empty parent has no layers.
func (s *Store) Layers(ctx context.Context, parent string) ([]string, error) {
	if parent == "" {
		return []string{}, s.do(ctx, "find the layers in", func(context.Context) error { return nil })
	}
	rows, err := ask(ctx, s, s.do, "find the layers of "+parent+" in",
		pgx.RowToStructByPos[layerRow], selectLayers, parent)
	if err != nil {
		return nil, err
	}
	layers := []string{}
	for _, r := range rows {
		if textIn(r.Payload, "parent") == parent {
			layers = append(layers, r.AggregateID)
		}
	}
	slices.Sort(layers)
	return slices.Compact(layers), nil
}

// A layerRow is a row of selectLayers.
type layerRow struct {
	AggregateID string
	Payload     string
}

// textIn returns a text in a JSON object, nothing if there is none by the name. The fields of a struct ignore case.
func textIn(object, name string) (text string) {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal([]byte(object), &fields)
	if json.Unmarshal(fields[name], &text) != nil {
		return ""
	}
	return text
}
