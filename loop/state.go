package loop

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

// MaxState is the largest number of bytes of a state.
const MaxState = 8 << 10

// StateVersion is the version of the states that a [Detector] writes and reads.
const StateVersion = 3

// ErrState is wrapped by [Detector.UnmarshalBinary] if the state is damaged or of another version. A host can then
// begin again with [New].
var ErrState = errors.New("invalid loop state")

// stateSize is the size of a whole state: a name, the version, the words of a history, the checksum.
const (
	stateName = "loop"
	words64   = 5 + // turn, delivered, fresh, changed, made
		2*(maxPeriod+2+maxPeriod+1) + // the tails
		3*memory + 1 + // the pairs
		12*tries + // the futile series
		2 // the waiting
	stateSize = len(stateName) + 1 + 8*words64 + crc32.Size
)

// MarshalBinary returns all that the detector remembers but its config: digests and counts, no text, and at most
// [MaxState] bytes. The error is always nil.
func (d *Detector) MarshalBinary() ([]byte, error) { return d.AppendBinary(nil) }

// AppendBinary appends what [Detector.MarshalBinary] returns. The error is always nil.
func (d *Detector) AppendBinary(state []byte) ([]byte, error) {
	start := len(state)
	state = append(append(state, stateName...), StateVersion)
	d.history.walk(func(word *uint64) { state = binary.LittleEndian.AppendUint64(state, *word) })
	return binary.LittleEndian.AppendUint32(state, crc32.ChecksumIEEE(state[start:])), nil
}

// UnmarshalBinary replaces all that the detector remembers with a stored state, and keeps the config. It wraps
// [ErrState] if the state is damaged or of another version, and then changes nothing.
func (d *Detector) UnmarshalBinary(state []byte) error {
	version, named := bytes.CutPrefix(state, []byte(stateName))
	if named && len(version) > 0 && version[0] != StateVersion {
		return fmt.Errorf("%w: its version is %d; this library reads version %d", ErrState, version[0], StateVersion)
	}
	if len(state) != stateSize || !named {
		return fmt.Errorf("%w: %d bytes are not what MarshalBinary returned, which has %d", ErrState, len(state), stateSize)
	}
	body := state[:stateSize-crc32.Size]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(state[len(body):]) {
		return fmt.Errorf("%w: its checksum is wrong; it was damaged", ErrState)
	}
	var h history
	rest := body[len(stateName)+1:]
	h.walk(func(word *uint64) {
		*word = binary.LittleEndian.Uint64(rest)
		rest = rest[8:]
	})
	if flaw := h.flaw(); flaw != "" {
		return fmt.Errorf("%w: %s", ErrState, flaw)
	}
	d.history = h
	return nil
}

// walk calls do with each word of the history, in the order of the state.
func (h *history) walk(do func(word *uint64)) {
	all := func(list []uint64) {
		for i := range list {
			do(&list[i])
		}
	}
	for _, word := range []*uint64{&h.turn, &h.delivered, &h.fresh, &h.changed, &h.made} {
		do(word)
	}
	for _, t := range []*tail{&h.tail, &h.hard} {
		all(t.last[:])
		do(&t.seen)
		do(&t.told)
		all(t.same[:])
	}
	all(h.pairs.pair[:])
	all(h.pairs.input[:])
	all(h.pairs.turn[:])
	do(&h.pairs.next)
	for i := range h.futile.series {
		s := &h.futile.series[i]
		for _, word := range []*uint64{&s.kind, &s.outcome, &s.count, &s.delivered, &s.first, &s.last} {
			do(word)
		}
		s.wording.walk(do)
	}
	do(&h.waiting.time)
	do(&h.waiting.first)
}

// flaw says what no history can have.
func (h *history) flaw() string {
	last := max(h.delivered, h.fresh, h.changed, h.made, h.hard.seen)
	if last > h.turn || h.tail.seen != h.turn || h.pairs.next >= memory {
		return "its turns contradict one another"
	}
	if h.tail.flawed() || h.hard.flawed() {
		return "it has rounds of more turns than there were"
	}
	later := func(turn uint64) bool { return turn > h.turn }
	for i := range h.pairs.turn {
		if turn, _ := h.pairs.at(i); later(turn) {
			return "it has a pair of a turn that was not"
		}
	}
	wrong := func(s series) bool { return s.first > s.last || later(s.last) || s.delivered > s.count }
	if slices.ContainsFunc(h.futile.series[:], wrong) {
		return "it has futile calls of turns that were not"
	}
	return ""
}

func (t *tail) flawed() bool {
	for period, same := range t.same {
		if same > 0 && same+uint64(period) > t.seen {
			return true
		}
	}
	return t.told > t.seen
}
