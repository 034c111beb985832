package sqlite

import (
	"bytes"
	"encoding/json"
	"strings"
)

// In the table every payload carries an event_version. Where the event has none, mark adds it in exactly this form as
// the last key, and unmark cuts exactly this form off, so that a reader sees what was appended.
const (
	versionKey = "event_version"
	lastMark   = `,"event_version":1}`
	onlyMark   = `{"event_version":1}`
)

// mark returns the payload as text with an event_version. A payload that has one of its own is only kept from looking
// like one that was marked: by a space, which means nothing in JSON.
func mark(payload []byte) string {
	body := bytes.Trim(payload, " \t\r\n")
	switch {
	case !hasVersion(body):
		if inside := bytes.Trim(body[1:len(body)-1], " \t\r\n"); len(inside) == 0 {
			return onlyMark
		}
		return string(body[:len(body)-1]) + lastMark
	case looksMarked(string(body)):
		return string(body[:len(body)-1]) + " }"
	default:
		return string(body)
	}
}

// unmark returns the payload of a row as it was appended. Text that was not written by mark comes back unchanged,
// except where it ends as if it were; NULL is an empty object.
func unmark(text string) json.RawMessage {
	switch {
	case text == "" || text == onlyMark:
		return json.RawMessage("{}")
	case looksMarked(text):
		return json.RawMessage(strings.TrimSuffix(text, lastMark) + "}")
	default:
		return json.RawMessage(text)
	}
}

func looksMarked(text string) bool { return text == onlyMark || strings.HasSuffix(text, lastMark) }

// hasVersion looks for the key at the top level, however it is spelled. Decoding is needed only where the name
// occurs, or may be hidden behind an escape.
func hasVersion(object []byte) bool {
	if !bytes.Contains(object, []byte(versionKey)) && !bytes.ContainsRune(object, '\\') {
		return false
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(object, &keys) != nil {
		return false
	}
	_, there := keys[versionKey]
	return there
}
