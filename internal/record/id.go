package record

import (
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
)

// Once is the name of the one event of its kind in a window.
const Once = "once"

// EventID is the ID of the event of a kind and a name in a window of a run: the same, whichever process makes it, a
// name-based UUID (RFC 9562, version 5). An empty name gives an ID that no other event has. A session's window is named
// by the text of its start, [event.Stamp.String]. A layer's has a name of its own, [NewWindow].
func EventID(runID, window, kind, name string) string {
	if name == "" {
		return randomID()
	}
	parts := make([]byte, 0, 160)
	for _, part := range [...]string{runID, window, kind, name} {
		parts = append(append(parts, part...), 0)
	}
	sum := sha1.Sum(parts)
	return formatUUID([16]byte(sum[:16]), 5)
}

// StartID is the ID of the event that says when a run began whose start the store keeps. It does not contain the start,
// so that of two processes the first one wins. It is that of a checkpoint, which versions before wrote for it, so that
// it is found, and a process of such a version has the same start.
func StartID(runID, parent string) string { return EventID(runID, parent, Checkpoint, Once) }

// NewWindow is a name that no other window has.
func NewWindow() string { return randomID() }

// NewRunID is the ID of a run that its host gave none.
func NewRunID() string { return randomID() }

// randomID is a random UUID (RFC 9562, version 4).
func randomID() string {
	var id [16]byte
	rand.Read(id[:]) // never fails
	return formatUUID(id, 4)
}

// uuidLength is how many characters a UUID has.
const uuidLength = 36

func formatUUID(id [16]byte, version byte) string {
	id[6] = id[6]&0x0f | version<<4
	id[8] = id[8]&0x3f | 0x80
	text := make([]byte, 0, uuidLength)
	for i, group := range [][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if i > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, group)
	}
	return string(text)
}
