package history

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// idLength is how many characters a UUID has.
const idLength = 36

// isID reports whether a text begins with a UUID of the version, or of any if that is 0.
func isID(text string, version byte) bool {
	if len(text) < idLength || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return false
	}
	if version != 0 && text[14] != version {
		return false
	}
	for i := range idLength {
		c := text[i]
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// eachID replaces the UUIDs in a text, which most texts have none of.
func eachID(text string, replace func(id string) string) string {
	at := -1
	for i := 8; i+idLength-8 <= len(text); i++ {
		if text[i] == '-' && isID(text[i-8:], 0) {
			at = i - 8
			break
		}
	}
	if at < 0 {
		return text
	}
	var b strings.Builder
	for text != "" {
		if isID(text, 0) {
			b.WriteString(replace(text[:idLength]))
			text = text[idLength:]
			continue
		}
		b.WriteByte(text[0])
		text = text[1:]
	}
	return b.String()
}

// Masked is a text without its random IDs, and without those that are derived from random ones, for sorting.
func Masked(text string) string { return eachID(text, func(string) string { return "*" }) }

// Normal has random IDs, and those that are derived from random ones, be the numbers in which they appear first. What
// stands between the exact marks stays as it is.
func (t Transcript) Normal() {
	labels := map[string]string{}
	for i := range t {
		t[i].Text = eachID(t[i].Text, func(id string) string {
			if labels[id] == "" {
				labels[id] = "#" + strconv.Itoa(len(labels)+1)
			}
			return labels[id]
		})
		t[i].Text = sortedResets(t[i].Text)
	}
}

// sortedResets has a list of IDs be in the order of their numbers: it was in that of the IDs.
func sortedResets(text string) string {
	const begin = `"resets":[`
	from := strings.Index(text, begin)
	if from < 0 {
		return text
	}
	from += len(begin)
	n := strings.IndexByte(text[from:], ']')
	if n < 0 {
		return text
	}
	list := strings.Split(text[from:from+n], ",")
	slices.Sort(list)
	return text[:from] + strings.Join(list, ",") + text[from+n:]
}

// Exact writes an ID so that it is compared as it is.
func Exact(id string) string { return strings.ReplaceAll(id, "-", "_") }

// DerivedID is the name-based UUID that a watchdog derives for an event.
func DerivedID(parts ...string) string {
	sum := sha1.Sum([]byte(strings.Join(parts, "\x00") + "\x00"))
	id := sum[:16]
	id[6], id[8] = id[6]&0x0f|0x50, id[8]&0x3f|0x80
	text := hex.EncodeToString(id)
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// derives are the kinds of event whose IDs are derived from the run, its window and the kind.
var derives = []string{"cancel", "complete", "resume", "warning", "wrap_up"}

// EventID is an ID as the transcript has it: exactly if it is derived from what is not random.
func EventID(id, aggregate, kind string) string {
	kind = strings.TrimPrefix(kind, "runtime.watchdog.")
	if isID(id, '5') && !strings.Contains(aggregate, "/") && slices.Contains(derives, kind) {
		return Exact(id)
	}
	return id
}
