module loggia.dev/e2e/schemas

go 1.24
