module talosmith/conformance/resources

go 1.24
