"""The rules of the promise, one function each: evidence in, sentences out. None of them asks the product anything."""
