package sqlite

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Every payload in the table has an event_version. If the event has none, addVersion adds it in exactly this form as
// the last key, and stripVersion removes exactly this form, so that a reader gets what was appended.
const (
	versionKey       = "event_version"
	addedVersion     = `,"event_version":1}`
	emptyWithVersion = `{"event_version":1}`
)

// addVersion returns the payload as text with an event_version. If the payload has one of its own in the same form,
// addVersion adds a space, which means nothing in JSON, so that stripVersion leaves the key alone.
func addVersion(payload []byte) string {
	body := bytes.Trim(payload, " \t\r\n")
	switch {
	case !hasVersion(body):
		if inside := bytes.Trim(body[1:len(body)-1], " \t\r\n"); len(inside) == 0 {
			return emptyWithVersion
		}
		return string(body[:len(body)-1]) + addedVersion
	case hasAddedVersion(string(body)):
		return string(body[:len(body)-1]) + " }"
	default:
		return string(body)
	}
}

// stripVersion returns the payload of a row as it was appended. Text of other writers is returned unchanged, unless it
// ends in exactly the added form. NULL is an empty object.
func stripVersion(text string) json.RawMessage {
	switch {
	case text == "" || text == emptyWithVersion:
		return json.RawMessage("{}")
	case hasAddedVersion(text):
		return json.RawMessage(strings.TrimSuffix(text, addedVersion) + "}")
	default:
		return json.RawMessage(text)
	}
}

func hasAddedVersion(text string) bool {
	return text == emptyWithVersion || strings.HasSuffix(text, addedVersion)
}

// hasVersion looks for the key at the top level, also when it is spelled with escapes. It decodes only if the text
// contains the name or an escape.
func hasVersion(object []byte) bool {
	if !bytes.Contains(object, []byte(versionKey)) && !bytes.ContainsRune(object, '\\') {
		return false
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(object, &keys) != nil {
		return false
	}
	_, exists := keys[versionKey]
	return exists
}
