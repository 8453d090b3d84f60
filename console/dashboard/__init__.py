"""The first page: is everything all right?"""
