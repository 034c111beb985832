package transcript

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A document takes a file apart into the lines, or the elements of a list, that say something. A list is the whole
// file, or a field of an object: so none of these needs to be in memory at once.
type document struct {
	*scanner

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

// A kind is that of a value.
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

// begin looks at the first bytes.
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
	b, err := d.next()
	v.line = d.line
	switch {
	case err != nil:
		return v, err
	case d.inList:
		return d.element(b)
	case d.inObject:
		return d.fields(v)
	case b == '{':
		d.inObject, d.tooLong, d.keys = true, false, d.keys[:0]
		d.keep(b)
		return d.fields(v)
	case b == '[':
		d.beginList()
		return v, nil
	}
	return v, errBroken
}

func (d *document) beginList() {
	d.inList, d.elements = true, 0
	d.keep('[')
}

// fields reads the fields of an object up to its end, which makes it a line, or up to a list of messages, which makes
// it a document.
func (d *document) fields(v value) (value, error) {
	for {
		b, err := d.next()
		switch {
		case err != nil:
			return v, err
		case b == '}':
			d.keep(b)
			return d.endObject(v)
		case b == ',' && len(d.keys) > 0:
			d.keep(b)
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
	if b, err := d.next(); err != nil {
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

// name reads the name of a field and the colon.
func (d *document) name() (name string, err error) {
	if b, err := d.next(); err != nil || b != '"' {
		return "", cmp.Or(err, errBroken)
	}
	start := len(d.kept)
	if err := d.value(true); err != nil {
		return "", err
	}
	if json.Unmarshal(d.kept[start:], &name) != nil {
		return "", errBroken
	}
	if b, err := d.next(); err != nil || b != ':' {
		return "", cmp.Or(err, errBroken)
	}
	d.keep(':')
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
		d.keep(b)
		d.kept = d.kept[:0]
		if b, err = d.next(); err != nil {
			return v, err
		}
	}
	v.line = d.line
	if b == ']' {
		d.inList = false
		d.keep(b)
		v.kind = theEnd
		return v, nil
	}
	d.elements++
	err = d.value(true)
	v.kind, v.data = anElement, d.kept
	return v, err
}
