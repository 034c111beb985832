package modelproxy

// Trusted is for tests of what is trusted.
var Trusted = trusted
