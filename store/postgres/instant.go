package postgres

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

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
