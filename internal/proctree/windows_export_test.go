//go:build windows

package proctree

import "unsafe"

// JobAttr is for the external tests.
var JobAttr = jobAttr

// The sizes and offsets of the C structures on 64-bit systems, and on 32-bit ones. What differs is out of the bounds of
// these arrays, so that compiling the tests checks them.
const wide = ^uintptr(0) >> 63 // 1 if a pointer has 64 bits

var (
	_ = [1]int{}[unsafe.Sizeof(jobLimits{})-(112+32*wide)]
	_ = [1]int{}[unsafe.Offsetof(jobLimits{}.io)-(48+16*wide)]
	_ = [1]int{}[unsafe.Offsetof(jobLimits{}.processMemory)-(96+16*wide)]
	_ = [1]int{}[unsafe.Offsetof(jobBasicLimits{}.flags)-16]
	_ = [1]int{}[unsafe.Offsetof(jobBasicLimits{}.affinity)-(32+16*wide)]
	_ = [1]int{}[unsafe.Sizeof(jobAccounting{})-48]
	_ = [1]int{}[unsafe.Offsetof(jobAccounting{}.activeProcesses)-40]
	_ = [1]int{}[unsafe.Sizeof(jobPIDs{})-8]
)
