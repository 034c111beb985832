package transcript

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxValue is the largest value that is kept. A larger one is skipped and counts as a line that is not known.
const maxValue = 128 << 20

var (
	errBroken  = errors.New("broken JSON")
	errTooLong = errors.New("a value is too long")
)

// A document takes a file apart into the lines, or the elements of a list, that say something. A list is the whole
// file, or a field of an object: so none of these needs to be in memory at once, and neither does a field that is not
// needed, which [json.Decoder] would keep. It finds where a value ends; whether it is valid is for [json.Unmarshal] to
// say.
type document struct {
	in    *bufio.Reader
	line  int    // the number of the line that is read, from 1
	fresh bool   // nothing but space was read of that line
	kept  []byte // the values that were kept since it was emptied

	begun    bool
	inList   bool     // in a list of messages
	inObject bool     // in an object, which is a line or has such a list
	keys     []string // of that object
	tooLong  bool     // one of its fields was left out
	elements int      // of the list
}

// A value is what was read. It is valid until the next one is.
type value struct {
	kind kind
	data []byte
	keys []string // the names of the fields of a line
	line int      // on which it begins
}

type kind int

const (
	aLine     kind = iota + 1 // an object
	anElement                 // of a list
	theEnd                    // of a list
)

// read reads a value. After errBroken and errTooLong it can go on.
func (d *document) read() (value, error) {
	if !d.begun {
		d.begun = true
		if err := d.begin(); err != nil {
			return value{}, err
		}
	}
	d.kept = d.kept[:0]
	v, err := d.part()
	if errors.Is(err, errBroken) {
		d.inList, d.inObject = false, false
		if failed := d.recover(); failed != nil && !errors.Is(failed, io.EOF) {
			err = failed
		}
	}
	return v, err
}

// within reports whether the end of the file would be in the middle of something.
func (d *document) within() bool { return d.inList || d.inObject || len(d.kept) > 0 }

func (d *document) begin() error {
	start, _ := d.in.Peek(6) // less than that is no such thing
	for _, other := range []struct{ bytes, is string }{
		{"\x28\xb5\x2f\xfd", "compressed by zstd; unpack it first, as with zstd -d"},
		{"\x1f\x8b", "compressed by gzip; unpack it first, as with gzip -d"},
		{"\xfd7zXZ\x00", "compressed by xz; unpack it first, as with xz -d"},
		{"BZh", "compressed by bzip2; unpack it first, as with bzip2 -d"},
		{"PK\x03\x04", "a zip archive; unpack it first, as with unzip"},
		{"SQLite", "a database; have the agent export the session"},
		{"\xff\xfe", "UTF-16; write it as UTF-8"},
		{"\xfe\xff", "UTF-16; write it as UTF-8"},
	} {
		if bytes.HasPrefix(start, []byte(other.bytes)) {
			return fmt.Errorf("%w: it is %s", ErrFormat, other.is)
		}
	}
	if bytes.HasPrefix(start, []byte("\xef\xbb\xbf")) {
		_, _ = d.in.Discard(3)
	}
	return nil
}

// part reads the next part: a line, an element of a list, or the fields of an object up to the list.
func (d *document) part() (v value, err error) {
	b, err := d.next(false)
	v.line = d.line
	switch {
	case err != nil:
		return v, err
	case d.inList:
		return d.element(b)
	case b == '{' && !d.inObject:
		d.inObject, d.tooLong, d.keys = true, false, d.keys[:0]
		d.one(true)
	case b == '[' && !d.inObject:
		d.beginList()
		return v, nil
	case !d.inObject:
		return v, errBroken
	}
	return d.fields(v)
}

func (d *document) beginList() {
	d.inList, d.elements = true, 0
	d.one(true)
}

// fields reads the fields of an object up to its end, which makes it a line, or up to a list of messages, which makes
// it a document.
func (d *document) fields(v value) (value, error) {
	for {
		b, err := d.next(false)
		switch {
		case err != nil:
			return v, err
		case b == '}':
			d.one(true)
			return d.endObject(v)
		case b == ',' && len(d.keys) > 0:
			d.one(true)
		case len(d.keys) > 0:
			return v, errBroken
		}
		if err := d.field(); err != nil || d.inList {
			return v, err
		}
	}
}

// unneeded are fields that are large, and say nothing that is wanted.
var unneeded = []string{"history", "toolUseResult", "snapshot", "replay_config", "environment", "todos", "tools"}

// field reads a field. The value of one that is not needed becomes null.
func (d *document) field() error {
	name, err := d.name()
	if err != nil {
		return err
	}
	d.keys = append(d.keys, name)
	if b, err := d.next(false); err != nil {
		return err
	} else if b == '[' && (name == "messages" || name == "trajectory") {
		d.beginList()
		return nil
	}
	needed := !slices.Contains(unneeded, name)
	err = d.value(needed)
	if d.tooLong = d.tooLong || errors.Is(err, errTooLong); d.tooLong {
		err = nil
	}
	if !needed || d.tooLong {
		d.kept = append(d.kept, "null"...)
	}
	return err
}

func (d *document) name() (name string, err error) {
	if b, err := d.next(false); err != nil || b != '"' {
		return "", cmp.Or(err, errBroken)
	}
	start := len(d.kept)
	if err := d.value(true); err != nil {
		return "", err
	}
	if json.Unmarshal(d.kept[start:], &name) != nil {
		return "", errBroken
	}
	if b, err := d.next(false); err != nil || b != ':' {
		return "", cmp.Or(err, errBroken)
	}
	d.one(true)
	return name, nil
}

// endObject ends a line, or a document whose list has been read.
func (d *document) endObject(v value) (value, error) {
	d.inObject = false
	switch {
	case d.tooLong:
		return v, errTooLong
	case !slices.Contains(d.keys, "messages") && !slices.Contains(d.keys, "trajectory"):
		v.kind, v.data, v.keys = aLine, d.kept, d.keys
	}
	return v, nil
}

// element reads an element of a list, or its end.
func (d *document) element(b byte) (v value, err error) {
	if b == ',' && d.elements > 0 {
		d.one(true)
		d.kept = d.kept[:0]
		if b, err = d.next(false); err != nil {
			return v, err
		}
	}
	v.line = d.line
	if b == ']' {
		d.inList = false
		d.one(true)
		v.kind = theEnd
		return v, nil
	}
	d.elements++
	err = d.value(true)
	v.kind, v.data = anElement, d.kept
	return v, err
}

const space = " \t\r\n"

// chunk returns what is there to read, at least a byte.
func (d *document) chunk() ([]byte, error) {
	if _, err := d.in.Peek(1); err != nil {
		return nil, err
	}
	return d.in.Peek(d.in.Buffered())
}

// next skips white space and returns the next byte without taking it.
func (d *document) next(keep bool) (byte, error) {
	for {
		chunk, err := d.chunk()
		if err != nil {
			return 0, err
		}
		rest := bytes.TrimLeft(chunk, space)
		if n := len(chunk) - len(rest); n > 0 {
			d.take(chunk[:n], keep)
		}
		if len(rest) > 0 {
			return rest[0], nil
		}
	}
}

// take takes the first bytes of a chunk: white space, or what ends with other bytes. It appends them to kept if they
// are wanted.
func (d *document) take(taken []byte, keep bool) {
	if keep && len(d.kept) <= maxValue {
		d.kept = append(d.kept, taken...)
	}
	if n := bytes.Count(taken, []byte{'\n'}); n > 0 {
		d.line += n
		d.fresh = true
	}
	d.fresh = d.fresh && len(bytes.TrimRight(taken, space)) == 0
	_, _ = d.in.Discard(len(taken)) // they are in the buffer
}

// one takes the next byte, which next returned.
func (d *document) one(keep bool) {
	b, _ := d.in.ReadByte() // it is in the buffer
	if keep && len(d.kept) <= maxValue {
		d.kept = append(d.kept, b)
	}
	d.fresh = false
}

// value takes a value, and appends it to kept if it is wanted.
func (d *document) value(keep bool) error {
	start := len(d.kept)
	for depth, first := 0, true; depth > 0 || first; first = false {
		b, err := d.next(keep && depth > 0)
		if err != nil {
			return err
		}
		if depth == 0 && strings.IndexByte(",:]}", b) >= 0 {
			return errBroken
		}
		nested, err := d.token(b, keep)
		if err != nil {
			return err
		}
		depth += nested
	}
	if len(d.kept) > maxValue {
		d.kept = d.kept[:start]
		return errTooLong
	}
	return nil
}

// token takes what begins with that byte, and returns by how much it nests what comes.
func (d *document) token(b byte, keep bool) (nested int, err error) {
	switch b {
	case '"':
		return 0, d.text(keep)
	case '{', '[':
		nested = 1
	case '}', ']':
		nested = -1
	case ',', ':':
	default:
		return 0, d.plain(keep)
	}
	d.one(keep)
	return nested, nil
}

// text takes a string. Most of a file is in one.
func (d *document) text(keep bool) error {
	d.one(keep)
	for escaped := false; ; {
		chunk, err := d.chunk()
		if err != nil {
			return err
		}
		for n, b := range chunk {
			switch {
			case escaped:
				escaped = false
			case b == '\\':
				escaped = true
			case b == '"':
				d.take(chunk[:n+1], keep)
				return nil
			case b == '\n': // a line that was cut off
				d.take(chunk[:n+1], keep)
				d.fresh = true
				return errBroken
			}
		}
		d.take(chunk, keep)
	}
}

// plain takes what is up to a delimiter, such as a number or a word.
func (d *document) plain(keep bool) error {
	for d.one(keep); ; {
		chunk, err := d.chunk()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if n := bytes.IndexAny(chunk, space+",:]}[{\""); n >= 0 {
			d.take(chunk[:n], keep)
			return nil
		}
		d.take(chunk, keep)
	}
}

// recover goes on with the next line, or with this one if a value broke off before it.
func (d *document) recover() error {
	if d.fresh {
		if b, err := d.next(false); err != nil || b == '{' || b == '[' {
			return err
		}
	}
	for {
		_, err := d.in.ReadSlice('\n')
		if err == nil {
			d.line++
			d.fresh = true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}
