package vfs

// Explain is what turns the errors of the system into those of the contract.
var Explain = explain

// ReadMapping is what Map does where files cannot be mapped.
var ReadMapping = readMapping
