package postgres

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"
)

// An array is the text of an array without its end. An argument of it is one string, whatever it has. Rejected: lists,
// of which pgx makes an object or two for each element.
type array []byte

// next begins the next element.
func (a array) next() array {
	if len(a) == 0 {
		return append(a, '{')
	}
	return append(a, ',')
}

// appendText appends a text to an array.
func appendText[T ~string | ~[]byte](a array, text T) array {
	a = append(a.next(), '"')
	for i := range len(text) {
		if c := text[i]; c == '"' || c == '\\' {
			a = append(a, '\\')
		}
		a = append(a, text[i])
	}
	return append(a, '"')
}

func (a array) null() array { return append(a.next(), "NULL"...) }

// textOrNull appends NULL for an empty text.
func (a array) textOrNull(text string) array {
	if text == "" {
		return a.null()
	}
	return appendText(a, text)
}

func (a array) number(n int64) array { return strconv.AppendInt(a.next(), n, 10) }

// time appends a time of the years 1 to 9999, cut off below the microsecond.
func (a array) time(t time.Time) array {
	return t.UTC().AppendFormat(a.next(), `"2006-01-02 15:04:05.000000Z"`)
}

// String is the whole text.
func (a array) String() string {
	if len(a) == 0 {
		return "{}"
	}
	return string(append(a, '}'))
}

// An instant is a time that timestamptz_send returned: 8 bytes, whatever the protocol. If the host's pool has no cache
// of descriptions the server sends values as text, and that of a time depends on DateStyle.
type instant struct {
	Time     time.Time
	Valid    bool // not NULL
	Infinite bool
	Negative bool // before all other times
}

// ScanBytes implements pgtype.BytesScanner.
func (t *instant) ScanBytes(sent []byte) error {
	*t = instant{}
	switch len(sent) {
	case 0:
		return nil
	case 8:
	default:
		return fmt.Errorf("a time has %d bytes, want 8", len(sent))
	}
	since2000 := int64(binary.BigEndian.Uint64(sent)) //nolint:gosec // it is signed
	t.Valid, t.Negative = true, since2000 == math.MinInt64
	t.Infinite = t.Negative || since2000 == math.MaxInt64
	if !t.Infinite {
		t.Time = time.UnixMicro(since2000 + year2000.UnixMicro()).UTC()
	}
	return nil
}

var year2000 = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
