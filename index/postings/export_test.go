package postings

// Size is the number of tokens that a file keeps for n.
func Size(n int) int { return int(unpackSize(packSize(uint32(n)))) }

// Sections are the sections of a file, with the sizes of their rows.
var Sections = map[string]int{
	secStreams: streamSize, secRanges: rangeSize, secThreads: threadSize, secDocs: docSize,
	secLists: 1, secTerms: 1, secBlocks: blockSize,
}

// Version is the version of the format.
const Version = version
