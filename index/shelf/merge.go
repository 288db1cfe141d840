package shelf

import "math/bits"

// fanIn is how many files of one class are merged, and the ratio of classes.
const fanIn = 8

// PickMerge returns the indices of the files that are to be merged into one
// now, or nil. It is given the files of a view, oldest first, and answers with
// neighbours in that order; the result takes their place. Asked until it
// answers nil, it leaves fewer than eight files of each class, where a class
// spans a factor of eight in weight, so at most 7 * (1 + log8 of the whole).
//
// A file that is heavier than its older neighbours takes those in at once;
// that happens once in the life of a file. Otherwise eight of a class become
// one of the next. So an entry is rewritten O(log n) times.
func PickMerge(files []FileRef) []int {
	if first, last := swallow(files); first < last {
		return indices(first, last)
	}
	for end := len(files); end > 0; {
		first := end - 1
		for first > 0 && class(files[first-1]) == class(files[end-1]) {
			first--
		}
		if end-first >= fanIn {
			return indices(first, end-1)
		}
		end = first
	}
	return nil
}

// swallow finds the heaviest class that follows a lighter one, and returns
// the lighter files before it, and it.
func swallow(files []FileRef) (first, last int) {
	for i := 1; i < len(files); i++ {
		if class(files[i-1]) < class(files[i]) && (last == 0 || class(files[i]) > class(files[last])) {
			last = i
		}
	}
	for first = last; first > 0 && class(files[first-1]) < class(files[last]); {
		first--
	}
	return first, last
}

// class is the logarithm of the weight to the base of fanIn.
func class(f FileRef) int { return (bits.Len64(max(f.Weight, 1)) - 1) / 3 }

func indices(first, last int) []int {
	var list []int
	for i := first; i <= last; i++ {
		list = append(list, i)
	}
	return list
}
